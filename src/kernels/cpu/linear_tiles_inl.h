// How products are cut into tiles. Included by what is compiled once for each instruction set.

#ifndef REPRISE_KERNELS_CPU_LINEAR_ROW_BLOCK
#define REPRISE_KERNELS_CPU_LINEAR_ROW_BLOCK
namespace reprise::kernels::cpu {
/// Rows of one tile: a multiple of kMaxTileRows, few enough that M = 512 gives many threads work.
inline constexpr int64_t kLinearRowBlock = 96;
/// Blocks of weights that are walked together: they stay in the second-level cache while all rows pass.
inline constexpr int64_t kLinearPanel = 4;
}  // namespace reprise::kernels::cpu
#endif

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Tile t: block t / row_blocks of the outputs, block t % row_blocks of the rows. Calls rectangle(first_row, last_row,
/// first_block, last_block) for a range of tiles, cut into at most three rectangles, so that whole ones pass all rows
/// over weights that are in the cache.
template <typename Rectangle>
REPRISE_INLINE void for_each_rectangle(int64_t rows, int64_t first, int64_t last, Rectangle rectangle) {
  const int64_t row_blocks = (rows + kLinearRowBlock - 1) / kLinearRowBlock;
  while (first < last) {
    const int64_t block = first / row_blocks;
    const int64_t first_row_block = first % row_blocks;
    int64_t end_block = block + 1;
    const int64_t end_row_block = smaller(row_blocks, first_row_block + last - first);
    if (first_row_block == 0 && last - first >= row_blocks) end_block = last / row_blocks;
    rectangle(first_row_block * kLinearRowBlock, smaller(rows, end_row_block * kLinearRowBlock), block, end_block);
    first += (end_block - block) * (end_row_block - first_row_block);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
