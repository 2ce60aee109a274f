// How products are cut into tiles. Included by what is compiled once for each instruction set.

#ifndef REPRISE_KERNELS_CPU_LINEAR_ROW_BLOCK
#define REPRISE_KERNELS_CPU_LINEAR_ROW_BLOCK
namespace reprise::kernels::cpu {
/// Rows of one tile: a multiple of kMaxTileRows, few enough that M = 512 gives many threads work.
inline constexpr int64_t kLinearRowBlock = 96;
/// Bytes of a panel up to which the next one is fetched as a whole: while several register tiles pass (both, and x, are
/// in the second-level cache then), or a single one of several rows, whose multiplying takes as long as the memory, or
/// one of few rows, which is soon through a small panel.
inline constexpr int64_t kMostBytesAhead = 224 << 10;
inline constexpr int64_t kMostBytesAheadOfOne = 96 << 10;
inline constexpr int64_t kMostBytesAheadOfFewRows = 52 << 10;
/// Or a single row over eight blocks side by side, whose fetches are spread over so many streams.
inline constexpr int64_t kMostBytesAheadOfOneRow = 272 << 10;
inline constexpr int64_t kOneRowBlocks = 8;
/// Rows above which nothing is fetched: multiplying takes far longer than the memory.
inline constexpr int64_t kMostRowsAhead = kLinearRowBlock;

/// Register tiles take 8, 6, 4, 2 and 1 rows, or 6, 4, 2 and 1, or 3 and 1, or 2 and 1: how many the next of `left`
/// rows has. Tiles of 6 multiply fastest; 8 are for what they would leave over, so that few rows are one pass over the
/// weights.
constexpr int64_t rows_of_tile(int64_t most, int64_t left) {
  if (most >= 8 && left >= 8 && (left % 6 == 2 || left % 6 == 4) && left != 10) return 8;
  if (most >= 6 && left >= 4) return left >= 6 ? 6 : 4;
  if (most == 3) return left >= 3 ? 3 : 1;
  return left >= 2 && most >= 2 ? 2 : 1;
}
constexpr int64_t count_tiles(int64_t most, int64_t rows) {
  int64_t tiles = 0;
  for (int64_t left = rows; left > 0; left -= rows_of_tile(most, left)) ++tiles;
  return tiles;
}
}  // namespace reprise::kernels::cpu
#endif

namespace reprise::kernels::cpu::REPRISE_ISA {

/// What the threads' next blocks of weights are fetched by, while register tiles work on blocks that are in a cache.
struct Ahead {
  const char* at = nullptr;  ///< the first line to fetch of the first block
  int64_t block_stride = 0;  ///< bytes from block to block
  int64_t lines = 0;         ///< of each block, at each kFetchSteps-th step
  int64_t from_step = 0;     ///< before that nothing is fetched
};
/// Bytes of a block of weights that a tile takes in one step, in every packing: a line of the cache.
constexpr int64_t kStepBytes = 64;
/// Steps between fetches: more requests at once take the places of loads, and asking each time costs instructions.
constexpr int64_t kFetchSteps = 2;

/// What the only tile of a panel fetches: where the next panel begins. The hardware fetches what goes on, but notices
/// late that something has begun.
REPRISE_INLINE Ahead start_of_next(const char* next, int64_t block_stride, int64_t lines) {
  const int64_t from = larger(block_stride / kStepBytes / kFetchSteps * kFetchSteps - lines, 0);
  return {next - from * kStepBytes, block_stride, kFetchSteps, from};
}

/// Tile number `tile` of several that pass over a panel fetches its part of the next panel.
REPRISE_INLINE Ahead part_of_next(const char* next, int64_t block_stride, int64_t tile, int64_t tiles) {
  const int64_t first = tile * kFetchSteps / tiles;
  return {next + first * kStepBytes, block_stride, (tile + 1) * kFetchSteps / tiles - first, 0};
}

template <int kBlocks>
REPRISE_INLINE void fetch(const Ahead& ahead, int64_t first_step) {
  for (int64_t line = 0; line < ahead.lines; ++line) {
    const char* at = ahead.at + (first_step + line) * kStepBytes;
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) __builtin_prefetch(at + b * ahead.block_stride, 0, 2);
  }
}

/// step(0), step(1) ... of a tile of kBlocks blocks, with what it fetches in between.
template <int kBlocks, typename Step>
REPRISE_INLINE void for_each_step(const Ahead& ahead, int64_t steps, Step step) {
  const int64_t from = ahead.lines == 0 ? steps : smaller(ahead.from_step, steps);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i < from; ++i) step(i);
  while (i < steps) {
    fetch<kBlocks>(ahead, i);
    for (const int64_t end = smaller(i + kFetchSteps, steps); i < end; ++i) step(i);
  }
}

/// All rows over one panel of blocks [first_block, last_block) after the other: calls rows_over(first block of the
/// panel, its end, first row of a register tile, its rows, what it fetches). Blocks are `block_stride` bytes apart;
/// behind the last one goes on, with other rows, what begins at `after`, which may be null.
template <int64_t kMostRows, typename RowsOver>
REPRISE_INLINE void for_each_panel(const ProductTiles& by, const char* weight, int64_t block_stride, int64_t rows,
                                   int64_t first_block, int64_t last_block, const char* after, RowsOver rows_over) {
  const int64_t tiles = count_tiles(kMostRows, rows);
  const int64_t most_bytes = tiles > 1                                ? kMostBytesAhead
                             : rows > 6                               ? kMostBytesAheadOfOne
                             : rows == 1 && by.panel >= kOneRowBlocks ? kMostBytesAheadOfOneRow
                                                                      : kMostBytesAheadOfFewRows;
  const bool whole = by.panel * block_stride <= most_bytes;
  for (int64_t panel = first_block; panel < last_block; panel += by.panel) {
    const int64_t end = smaller(panel + by.panel, last_block);
    const char* next = rows > kMostRowsAhead || by.start_lines == 0 ? nullptr
                       : end < last_block                           ? weight + end * block_stride
                                                                    : after;
    int64_t tile = 0;
    for (int64_t row = 0; row < rows; ++tile) {
      const int64_t count = rows_of_tile(kMostRows, rows - row);
      Ahead ahead;
      if (next != nullptr && whole) ahead = part_of_next(next, block_stride, tile, tiles);
      if (next != nullptr && !whole && row + count == rows) ahead = start_of_next(next, block_stride, by.start_lines);
      rows_over(panel, end, row, count, ahead);
      row += count;
    }
  }
}

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
