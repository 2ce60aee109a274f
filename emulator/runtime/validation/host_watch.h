// Host memory under asynchronous copies.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "emulator/runtime/validation/misuse.h"

namespace reprise::emulator {

/// Copies from pinned memory that were submitted and have not run. Not synchronised.
class HostWatch {
 public:
  /// A copy by the task itself and, where a graph holds it, the launch of the graph.
  using Key = std::pair<const void*, const void*>;

  explicit HostWatch(MisuseReporter& reporter) : reporter_(reporter) {}

  /// Takes a fingerprint of the bytes. `site`: the call that submitted the copy.
  void submitted(Key key, const void* address, uint64_t bytes, const CallSite& site);
  /// The copy is about to run, or has just run (`over`): compares.
  void check(Key key, bool over);
  /// The copy, or the launch of a graph, is no more.
  void forget(const void* task);
  /// A device (or a host function in a stream's order) wrote there, as the program asked: no longer the host's doing.
  void written_in_order(const void* address, uint64_t bytes);
  void anything_written_in_order() { pending_.clear(); }
  /// Pinned memory is freed.
  void freed(const void* address, uint64_t bytes);
  void clear() { pending_.clear(); }

 private:
  struct Copy {
    const void* address = nullptr;
    uint64_t bytes = 0;
    uint64_t fingerprint = 0;
    CallSite site;

    bool overlaps(const void* other, uint64_t count) const;
  };

  MisuseReporter& reporter_;
  std::map<Key, Copy> pending_;
};

}  // namespace reprise::emulator
