#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::compile {

/// The life of one intermediate: bytes, and the first and last node that touch it (both inclusive).
struct MemoryInterval {
  size_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

/// Where intermediates lie in an arena.
struct MemoryPlan {
  std::vector<size_t> offsets;  ///< one per interval, multiples of kAlignment
  size_t bytes = 0;             ///< of the arena
  size_t peak_live_bytes = 0;   ///< lower bound: the most that lives at one node
};

/// Cache line of the CPUs and a multiple of what vector loads and device copies want.
inline constexpr size_t kAlignment = 64;

/// Lays intervals out so that two that live at the same time never overlap: the largest first, each at the lowest
/// offset that is free for its whole life. Empty intervals get offset 0.
MemoryPlan plan_memory(std::span<const MemoryInterval> intervals);

}  // namespace reprise::compile
