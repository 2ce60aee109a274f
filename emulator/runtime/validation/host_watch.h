// Host memory under asynchronous copies.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "emulator/runtime/pinned_memory.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/validation/misuse.h"

namespace reprise::emulator {

/// Copies from and to pinned memory that were submitted and have not run. Not synchronised.
class HostWatch {
 public:
  /// A copy by the task itself and, where a graph holds it, the launch of the graph.
  using Key = std::pair<const void*, const void*>;

  explicit HostWatch(MisuseReporter& reporter) : reporter_(reporter) {}

  /// A copy from there (takes a fingerprint of the bytes) or to there. `hold` keeps the memory; `site`: the call that
  /// submitted the copy.
  void reads(Key key, const HostRange& range, PinnedMemory::Hold hold, const CallSite& site);
  void writes(Key key, const HostRange& range, PinnedMemory::Hold hold, const CallSite& site);
  /// The copy is about to run, or has just run (`over`): compares.
  void check(Key key, bool over);
  /// The copy, or the launch of a graph, is no more.
  void forget(const void* task);
  /// A device (or a host function in a stream's order) wrote there, as the program asked: no longer the host's doing.
  void written_in_order(const void* address, uint64_t bytes);
  void anything_written_in_order();
  /// Pinned memory is freed.
  void freed(const void* address, uint64_t bytes);
  void clear();

 private:
  struct Copy {
    HostRange range;
    std::optional<uint64_t> fingerprint;  // while nobody may change the bytes
    PinnedMemory::Hold hold;
    CallSite site;

    bool overlaps(const void* other, uint64_t count) const;
  };
  using Copies = std::map<Key, Copy>;

  void report_freed(Copies& copies, const char* what, const void* address, uint64_t bytes);

  MisuseReporter& reporter_;
  Copies reads_;
  Copies writes_;
};

}  // namespace reprise::emulator
