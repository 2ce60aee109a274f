#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cpu/instruction.h"
#include "device/stream.h"

namespace reprise::device::cpu {

/// What memory the launches of a captured graph use, and which of them are independent by that.
class LaunchAccesses {
 public:
  /// Most launches that run at the same time.
  static constexpr int kMostLaunches = 16;

  /// Notes all accesses of the launch at `instruction`; in ascending order.
  void add(size_t instruction, std::span<const MemoryAccess> accesses);
  /// Cuts the instructions into runs of independent launches, as long as they can be from their first launch on, and
  /// sets `independent` there. Launches without accesses, and instructions of other kinds (but events within the
  /// graph, which do nothing when it runs as a whole), stay by themselves.
  void mark_independent(std::span<Instruction> instructions) const;

 private:
  struct Launch {
    size_t instruction;
    size_t first;  ///< in all_
    size_t last;
  };
  std::span<const MemoryAccess> accesses_of(const Launch& launch) const {
    return std::span(all_).subspan(launch.first, launch.last - launch.first);
  }
  bool are_independent(const Launch& a, const Launch& b) const;

  std::vector<Launch> launches_;
  std::vector<MemoryAccess> all_;
};

}  // namespace reprise::device::cpu
