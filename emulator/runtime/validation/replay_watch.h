// Replays side by side that share memory.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/runtime/validation/memory_ledger.h"
#include "emulator/runtime/validation/misuse.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

/// One run of a graph, from its begin to its end.
struct WatchedReplay {
  int32_t graph = 0;
  CallSite site;
  OrderClock start;
  Moment end;
  std::vector<MemoryUse> uses;
};

/// Graphs of one pool share memory, and only one of them may run at a time. Two replays are compared as wholes: an
/// order that signals between their middles would make is not seen. Not synchronised.
class ReplayWatch {
 public:
  explicit ReplayWatch(MisuseReporter& reporter) : reporter_(reporter) {}

  /// Compares a replay that ended with those that ended before it.
  void ended(WatchedReplay replay);
  void clear() { recent_.clear(); }

 private:
  void compare(const WatchedReplay& later, const WatchedReplay& earlier);

  MisuseReporter& reporter_;
  std::deque<WatchedReplay> recent_;
};

}  // namespace reprise::emulator
