// Task updates and the replays that read what they rewrite.
#pragma once

#include <unordered_map>
#include <vector>

#include "emulator/runtime/validation/misuse.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

/// Nothing in the runtime orders them; both legal schemes (an external wait in the graph before the group, or the
/// launch stream waiting for the update stream) are orders that the clocks see. Groups are known by address. Not
/// synchronised.
class UpdateWatch {
 public:
  explicit UpdateWatch(MisuseReporter& reporter) : reporter_(reporter) {}

  /// A stream's rewrite of the group's kernels. `update`: the call that ended the update.
  void rewritten(const void* group, const OrderLine& line, const CallSite& update);
  /// A replay is about to run a kernel of the group.
  void read(const void* group, const OrderLine& line, const CallSite& replay);
  void forget(const void* group) { groups_.erase(group); }
  void clear() { groups_.clear(); }

 private:
  struct Access {
    Moment moment;
    CallSite site;
  };
  struct Group {
    bool was_rewritten = false;
    Access rewrite;
    std::vector<Access> reads;  // since then, none of which follows another
  };

  MisuseReporter& reporter_;
  std::unordered_map<const void*, Group> groups_;
};

}  // namespace reprise::emulator
