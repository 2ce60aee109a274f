#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::kernels::cpu {

/// How a product walks over its weight: what suits a machine's caches and memory best. No result depends on it.
struct ProductTiles {
  /// Blocks of weights that are walked together, so that they stay in the second-level cache while all rows pass; at
  /// least 1.
  int64_t panel = 4;
  /// Lines that are fetched of a panel before its turn comes, where the hardware fetches the rest: fewer may not be
  /// enough for it to notice, more cost bandwidth. 0: nothing is fetched ahead of any panel.
  int64_t start_lines = 16;
};

/// What is worth trying, the default first.
inline constexpr ProductTiles kProductTiles[] = {{4, 16}, {4, 32}, {4, 64},  {8, 16},
                                                 {8, 32}, {16, 0}, {16, 16}, {16, 32}};
/// The one of them for weights that a cache of several cores holds. Reading them from there takes hardly longer than
/// asking for them, which only keeps the core from loading.
inline constexpr size_t kCachedProductTiles = 5;
static_assert(kProductTiles[kCachedProductTiles].start_lines == 0);
/// And the one for a single row times int8: eight short blocks make a panel that can be fetched as a whole.
inline constexpr size_t kInt8RowProductTiles = 3;
static_assert(kProductTiles[kInt8RowProductTiles].panel == 8);

}  // namespace reprise::kernels::cpu
