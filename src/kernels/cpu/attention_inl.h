// Compiled once for each instruction set, see foreach_instruction_set.h.

#ifndef REPRISE_KERNELS_CPU_ATTENTION_ITEM
#define REPRISE_KERNELS_CPU_ATTENTION_ITEM
namespace reprise::kernels::cpu {

/// One sequence in the tail: after the number of sequences and an unused value, one item each and a last one with the
/// totals.
struct AttentionItem {
  int32_t query_start;
  int32_t query_length;
  int32_t kv_length;
  int32_t first_tile;
  int32_t first_slot;
  int32_t row_slots;  ///< slots of a row and head: one per block, or one for all
};

/// A sequence with up to so many query rows has its blocks computed apart.
inline constexpr int64_t kAttentionSplitRows = 8;
/// Query rows of a tile in the other sequences.
inline constexpr int64_t kAttentionGroupRows = 16;

/// A slot of the workspace: the weighted sum of values (a multiple of 16 floats), the maximum, the sum of weights.
constexpr int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }
constexpr int64_t attention_slot_floats(int64_t head_dim) { return padded_head_dim(head_dim) + 16; }

}  // namespace reprise::kernels::cpu
#endif

#include "kernels/cpu/attention_scores_inl.h"
#include "kernels/cpu/attention_values_inl.h"
#include "kernels/cpu/convert_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Where the keys and values of one block lie, those of the first head that was asked for. After the last one it is
/// repeated up to the next multiple of 16, so that nobody has to count within it.
template <typename C>
struct BlockRows {
  const C* keys[kAttentionBlock];
  const C* values[kAttentionBlock];
  int64_t places[kAttentionBlock];  ///< of their scales
};

/// Finds `count` (at least 1) keys of a block; false if the block table leads out of the cache.
template <typename C>
bool find_rows(const AttentionArguments& a, int64_t sequence, int64_t block, int64_t kv_head, int64_t count,
               BlockRows<C>& rows) {
  const int64_t row_stride = a.kv_heads * a.head_dim;
  const int64_t position = block * kAttentionBlock;
  int64_t entry = position / a.page_size;
  int64_t offset = position % a.page_size;
  const int32_t* table = a.block_table + sequence * a.block_table_stride;
  int64_t i = 0;
  for (; i < count; ++entry, offset = 0) {
    if (entry >= a.block_table_stride || table[entry] < 0 || table[entry] >= a.pages) return false;
    int64_t slot = table[entry] * a.page_size + offset;
    for (; i < count && offset < a.page_size; ++i, ++offset, ++slot) {
      rows.keys[i] = static_cast<const C*>(a.key_cache) + slot * row_stride + kv_head * a.head_dim;
      rows.values[i] = static_cast<const C*>(a.value_cache) + slot * row_stride + kv_head * a.head_dim;
      rows.places[i] = slot * a.kv_heads + kv_head;
    }
  }
  for (; i % 16 != 0; ++i) {
    rows.keys[i] = rows.keys[count - 1];
    rows.values[i] = rows.values[count - 1];
    rows.places[i] = rows.places[count - 1];
  }
  return true;
}

/// The scales of `count` keys and values of a head, up to the next multiple of 16.
template <typename C>
REPRISE_INLINE void find_scales(const AttentionArguments& a, const BlockRows<C>& rows, int64_t head, int64_t count,
                                BlockScales& scales) {
  for (int64_t i = 0; i < (count + 15) / 16 * 16; ++i) {
    scales.keys[i] = a.key_scales[rows.places[i] + head];
    scales.values[i] = a.value_scales[rows.places[i] + head];
  }
}

REPRISE_INLINE void copy_query(const AttentionArguments& a, int64_t token, int64_t head, float* to) {
  const int64_t first = token * a.query_row_stride + head * a.head_dim;
  if (a.query_element == Element::kBf16) {
    convert_row(static_cast<const Bf16*>(a.query) + first, to, a.head_dim);
  } else {
    convert_row(static_cast<const float*>(a.query) + first, to, a.head_dim);
  }
  for (int64_t i = a.head_dim; i < query_stride(a.head_dim); ++i) to[i] = 0.0f;
}
#if defined(REPRISE_HAS_BF16_DOT)
REPRISE_INLINE void copy_query(const AttentionArguments& a, int64_t token, int64_t head, Bf16* to) {
  const Bf16* from = static_cast<const Bf16*>(a.query) + token * a.query_row_stride + head * a.head_dim;
  convert_row(from, to, a.head_dim);
  for (int64_t i = a.head_dim; i < query_stride(a.head_dim); ++i) to[i] = Bf16{0};
}
#endif

/// Rows (query row and head on one kv head) that pass over a block together, and how many share a register tile.
constexpr int64_t kTileRows = 32;
constexpr int kTileGroup = 4;
/// Some more than that, so that the last group is whole wherever the first one begins.
constexpr int64_t kTileSpace = kTileRows + kTileGroup;
/// Keys that are copied at a time, to lie side by side in the first-level cache while all rows pass over them.
constexpr int64_t kTileKeys = 32;

/// The rows of a tile; their positions do not descend. After them come some without a meaning.
template <typename C>
struct RowTile {
  using Dot = typename DotOf<C>::Type;
  alignas(64) typename Dot::Element query[kTileSpace * kMaxAttentionHeadDim];
  alignas(64) float scores[kTileSpace][kAttentionBlock];
  alignas(64) float values[kTileSpace * kMaxAttentionHeadDim];
  union {
    alignas(64) typename Dot::Element keys[kTileKeys * kMaxAttentionHeadDim];
    alignas(64) float packed_values[kTileKeys * kMaxAttentionHeadDim];
  };
  BlockRows<C> rows;
  BlockScales scales;
  int64_t count;
  int64_t visible[kTileSpace];  ///< keys that the row sees
  int64_t slots[kTileSpace];    ///< of its first block
  // Of the block at hand:
  float maxima[kTileSpace];
  float sums[kTileSpace];
  int64_t limits[kTileSpace];
  PartialView results[kTileSpace];
};

/// Copies `count` rows, with zeros up to a multiple of kStep columns.
template <int64_t kStep, typename C, typename T>
REPRISE_INLINE void pack_rows(const C* const* rows, int64_t count, int64_t head_dim, T* to) {
  const int64_t stride = (head_dim + kStep - 1) / kStep * kStep;
  for (int64_t i = 0; i < count; ++i, to += stride) {
    convert_row(rows[i], to, head_dim);
    if (head_dim < stride) memset(to + head_dim, 0, static_cast<size_t>(stride - head_dim) * sizeof(T));
  }
}

/// Takes the rows [first, last), each a query row times `heads` plus a head, of one kv head.
template <typename C>
void fill_tile(const AttentionArguments& a, const AttentionItem& item, int64_t kv_head, int64_t first, int64_t last,
               RowTile<C>& tile) {
  const int64_t heads = a.query_heads / a.kv_heads;
  const int64_t stride = query_stride(a.head_dim);
  tile.count = last - first;
  for (int64_t i = 0; i < tile.count; ++i) {
    const int64_t row = (first + i) / heads;
    const int64_t head = kv_head * heads + (first + i) % heads;
    copy_query(a, item.query_start + row, head, tile.query + i * stride);
    tile.visible[i] = item.kv_length - item.query_length + row + 1;
    tile.slots[i] = item.first_slot + (row * a.query_heads + head) * item.row_slots;
  }
  for (int64_t i = tile.count; i < tile.count + kTileGroup; ++i) {
    memset(tile.query + i * stride, 0, static_cast<size_t>(stride) * sizeof(tile.query[0]));
    tile.visible[i] = tile.visible[tile.count - 1];
  }
}

/// Where the rows from `begin` on leave the results of a block, and how many of its keys they see.
template <typename C>
void prepare_block(const AttentionArguments& a, int64_t block, bool split, int64_t begin, RowTile<C>& tile) {
  const int64_t padded = padded_head_dim(a.head_dim);
  for (int64_t i = begin; i < tile.count + kTileGroup; ++i) {
    tile.limits[i] = smaller(kAttentionBlock, tile.visible[i] - block * kAttentionBlock);
    // The first block needs no folding.
    tile.results[i] = i < tile.count && (split || block == 0)
                          ? slot_view(a.workspace, tile.slots[i] + (split ? block : 0), padded)
                          : PartialView{tile.values + i * padded, tile.maxima + i, tile.sums + i};
  }
}

template <typename C>
__attribute__((noinline)) void score_tile(const AttentionArguments& a, int64_t begin, int64_t end, RowTile<C>& tile) {
  using Dot = typename RowTile<C>::Dot;
  const int64_t stride = query_stride(a.head_dim);
  const int64_t columns = (a.head_dim + Dot::kStep - 1) / Dot::kStep * Dot::kStep;
  constexpr int64_t kKeys = 16 / kTileGroup;
  const int64_t count = tile.limits[end - 1];
  for (int64_t first = 0; first < count; first += kTileKeys) {
    const int64_t present = smaller(kTileKeys, (count - first + kKeys - 1) / kKeys * kKeys);
    pack_rows<Dot::kStep>(tile.rows.keys + first, present, a.head_dim, tile.keys);
    const PackedRows<typename Dot::Element> keys{tile.keys, columns, first};
    for (int64_t row = begin; row < end; row += kTileGroup) {
      const int64_t last = smaller(first + present, tile.limits[row + kTileGroup - 1]);
      for (int64_t key = first; key < last; key += kKeys) {
        score_keys<Dot, kTileGroup>(tile.query + row * stride, stride, keys, key, columns, tile.scores + row);
      }
    }
  }
}

/// Each row takes exactly the keys below its limit: the others may hold NaN, so that a weight of 0 would not do.
template <typename C>
__attribute__((noinline)) void sum_tile(const AttentionArguments& a, int64_t begin, int64_t end, RowTile<C>& tile) {
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t count = tile.limits[end - 1];
  for (int64_t first = 0; first < count; first += kTileKeys) {
    const int64_t last = smaller(first + kTileKeys, count);
    pack_rows<16>(tile.rows.values + first, last - first, a.head_dim, tile.packed_values);
    const PackedRows<float> values{tile.packed_values, padded, first};
    for (int64_t row = begin; row < end; row += kTileGroup) {
      const int64_t common = smaller(last, tile.limits[row]);
      if (common > first) {
        add_values<kTileGroup>(values, padded, tile.scores + row, first, common, tile.results + row);
      }
      for (int64_t i = row + 1; i < row + kTileGroup; ++i) {
        const int64_t from = larger(first, common);
        const int64_t to = smaller(last, tile.limits[i]);
        if (to > from) add_values<1>(values, padded, tile.scores + i, from, to, tile.results + i);
      }
    }
  }
}

/// The rows of a tile over one block. Results go to the row's slot of that block, or are folded into its only slot.
template <typename C>
void attend_block(const AttentionArguments& a, int64_t sequence, int64_t kv_head, int64_t block, bool split,
                  RowTile<C>& tile) {
  int64_t begin = 0;
  while (begin < tile.count && tile.visible[begin] <= block * kAttentionBlock) ++begin;
  if (begin == tile.count) return;
  prepare_block(a, block, split, begin, tile);
  const int64_t end = begin + (tile.count - begin + kTileGroup - 1) / kTileGroup * kTileGroup;
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t count = tile.limits[tile.count - 1];
  if (find_rows(a, sequence, block, kv_head, count, tile.rows)) {
    const BlockScales* scales = a.key_scales == nullptr ? nullptr : &tile.scales;
    if (scales != nullptr) find_scales(a, tile.rows, 0, count, tile.scales);
    score_tile(a, begin, end, tile);
    for (int64_t i = begin; i < end; ++i) weigh_keys(tile.scores[i], tile.limits[i], a.scale, scales, tile.results[i]);
    sum_tile(a, begin, end, tile);
  } else {
    for (int64_t i = begin; i < tile.count; ++i) fill_with_nan(tile.results[i], padded);
  }
  if (split || block == 0) return;
  for (int64_t i = begin; i < tile.count; ++i) {
    fold(slot_view(a.workspace, tile.slots[i], padded), tile.results[i], padded);
  }
}

/// The query rows [first_row, last_row) of one sequence with the heads of one kv head, over some blocks.
template <typename C>
__attribute__((noinline)) void attend_tile(const AttentionArguments& a, int64_t sequence, const AttentionItem& item,
                                           int64_t first_row, int64_t last_row, int64_t kv_head, int64_t first_block,
                                           int64_t last_block, bool split) {
  const int64_t heads = a.query_heads / a.kv_heads;
  RowTile<C> tile;
  for (int64_t first = first_row * heads; first < last_row * heads; first += kTileRows) {
    fill_tile(a, item, kv_head, first, smaller(first + kTileRows, last_row * heads), tile);
    for (int64_t block = first_block; block < last_block; ++block) {
      attend_block(a, sequence, kv_head, block, split, tile);
    }
  }
}

/// KV heads of a decode step that are read together, and the most query heads on each of them.
constexpr int64_t kMergedHeads = 8;
constexpr int kMergedRows = 4;
/// Keys of all heads whose values are summed up before those of later keys: few, so that memory is read nearly in its
/// order, while a head alone seldom puts its sums away.
constexpr int64_t kMergedKeys = 64;

/// A query row of each head of some kv heads, over one block.
template <typename C>
struct MergedHeads {
  using Dot = typename DotOf<C>::Type;
  alignas(64) typename Dot::Element query[kMergedHeads * kMergedRows * kMaxAttentionHeadDim];
  alignas(64) float scores[kMergedHeads][kMergedRows][kAttentionBlock];
  V products[kMergedHeads][kMergedRows][16];
  BlockRows<C> rows;
  BlockScales scales;
  PartialView out[kMergedHeads * kMergedRows];
};

/// The rows of kv head h with kKeys keys from first + j on.
template <int kRows, int kKeys, typename C>
REPRISE_INLINE void score_heads(const AttentionArguments& a, int64_t count, int64_t h, int64_t first, int64_t j,
                                MergedHeads<C>& merged) {
  const int64_t stride = query_stride(a.head_dim);
  const CacheRows<C> keys{merged.rows.keys, count, h * a.head_dim};
#pragma GCC unroll 4
  for (int i = 0; i < kKeys; ++i) keys.prefetch(first + j + i, 0, a.head_dim);
  V sums[kRows][kKeys];
  multiply_keys<typename MergedHeads<C>::Dot>(merged.query + h * kRows * stride, stride, keys, first + j, a.head_dim,
                                              sums);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kKeys; ++i) merged.products[h][r][j + i] = sums[r][i];
  }
}

/// One query row over one block for several kv heads at once. Their keys lie side by side in memory, so that this reads
/// the cache in its order, as one head alone cannot. The arithmetic is that of a tile. `query` and `out` hold kRows
/// rows for each kv head.
template <int kRows, typename C>
__attribute__((noinline)) void attend_heads(const AttentionArguments& a, int64_t kv_heads, int64_t count,
                                            MergedHeads<C>& merged) {
  constexpr int kTogether = 4 * kRows <= kRegisterBudget ? 4 : 1;
  // Four keys of a head at a time load its queries once; but then several heads do not read memory in its order, which
  // costs more, unless values must be widened first.
  const bool together = kv_heads == 1 || sizeof(C) == 1;
  for (int64_t first = 0; first < count; first += 16) {
    const int64_t present = smaller(16, count - first);
    int64_t j = 0;
    for (; together && j + kTogether <= present; j += kTogether) {
      for (int64_t h = 0; h < kv_heads; ++h) score_heads<kRows, kTogether>(a, count, h, first, j, merged);
    }
    for (; j < present; ++j) {
      for (int64_t h = 0; h < kv_heads; ++h) score_heads<kRows, 1>(a, count, h, first, j, merged);
    }
    for (int64_t h = 0; h < kv_heads; ++h) {
      for (int r = 0; r < kRows; ++r) {
        for (int64_t j = present; j < 16; ++j) merged.products[h][r][j] = zero();
        store(merged.scores[h][r] + first, reduce_scores(merged.products[h][r]));
      }
    }
  }
  for (int64_t h = 0; h < kv_heads; ++h) {
    if (a.key_scales != nullptr) find_scales(a, merged.rows, h, count, merged.scales);
    const BlockScales* scales = a.key_scales == nullptr ? nullptr : &merged.scales;
    for (int r = 0; r < kRows; ++r) weigh_keys(merged.scores[h][r], count, a.scale, scales, merged.out[h * kRows + r]);
  }
  const int64_t keys_of_head = kMergedKeys / kv_heads;
  for (int64_t key = 0; key < count; key += keys_of_head) {
    for (int64_t h = 0; h < kv_heads; ++h) {
      const CacheRows<C> values{merged.rows.values, count, h * a.head_dim};
      add_values<kRows>(values, a.head_dim, merged.scores[h], key, smaller(key + keys_of_head, count),
                        merged.out + h * kRows);
    }
  }
}

/// The only query row of a sequence over one block, for the kv heads [first_head, last_head).
template <typename C>
void attend_block_of_row(const AttentionArguments& a, int64_t sequence, const AttentionItem& item, int64_t first_head,
                         int64_t last_head, int64_t block) {
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t stride = query_stride(a.head_dim);
  const int64_t rows = a.query_heads / a.kv_heads;
  const int64_t count = smaller(kAttentionBlock, item.kv_length - block * kAttentionBlock);
  MergedHeads<C> merged;
  const bool found = find_rows(a, sequence, block, first_head, count, merged.rows);
  for (int64_t i = 0; i < (last_head - first_head) * rows; ++i) {
    const int64_t head = first_head * rows + i;
    copy_query(a, item.query_start, head, merged.query + i * stride);
    merged.out[i] = slot_view(a.workspace, item.first_slot + head * item.row_slots + block, padded);
    if (!found) fill_with_nan(merged.out[i], padded);
  }
  if (!found) return;
  if (rows == 1) attend_heads<1>(a, last_head - first_head, count, merged);
  if (rows == 2) attend_heads<2>(a, last_head - first_head, count, merged);
  if (rows == 3) attend_heads<3>(a, last_head - first_head, count, merged);
  if (rows == 4) attend_heads<4>(a, last_head - first_head, count, merged);
}

/// The item whose range of tiles (or of query rows) holds a number.
REPRISE_INLINE int64_t find_item(const AttentionItem* items, int64_t sequences, int32_t AttentionItem::* field,
                                 int64_t number) {
  int64_t low = 0;
  int64_t high = sequences;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (items[middle].*field <= number) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename C>
void attention_partial(const void* arguments, int64_t first, int64_t last) {
  const AttentionArguments& a = *static_cast<const AttentionArguments*>(arguments);
  const int32_t* tail = tail_of<AttentionArguments>(arguments);
  const AttentionItem* items = reinterpret_cast<const AttentionItem*>(tail + 2);
  if (first >= last) return;
  int64_t sequence = find_item(items, tail[0], &AttentionItem::first_tile, first);
  for (int64_t tile = first, done = 1; tile < last; tile += done) {
    done = 1;
    while (tile >= items[sequence + 1].first_tile) ++sequence;
    const AttentionItem& item = items[sequence];
    const int64_t kv_head = (tile - item.first_tile) % a.kv_heads;
    const int64_t index = (tile - item.first_tile) / a.kv_heads;
    if (item.query_length == 1 && a.query_heads <= kMergedRows * a.kv_heads) {
      done = smaller(smaller(a.kv_heads - kv_head, kMergedHeads), last - tile);
      attend_block_of_row<C>(a, sequence, item, kv_head, kv_head + done, index);
      continue;
    }
    if (item.query_length <= kAttentionSplitRows) {
      attend_tile<C>(a, sequence, item, 0, item.query_length, kv_head, index, index + 1, true);
      continue;
    }
    // Later rows see more keys; first, last, second, last but one ... balances a cut into equal numbers of tiles.
    const int64_t groups = (item.query_length + kAttentionGroupRows - 1) / kAttentionGroupRows;
    const int64_t group = index % 2 == 0 ? index / 2 : groups - 1 - index / 2;
    const int64_t first_row = group * kAttentionGroupRows;
    const int64_t last_row = smaller(first_row + kAttentionGroupRows, item.query_length);
    const int64_t keys = item.kv_length - item.query_length + last_row;
    const int64_t blocks = (keys + kAttentionBlock - 1) / kAttentionBlock;
    attend_tile<C>(a, sequence, item, first_row, last_row, kv_head, 0, blocks, false);
  }
}

/// Folds the blocks of one row and head and writes the output.
template <typename Q>
void merge_row(const AttentionArguments& a, const AttentionItem& item, int64_t row, int64_t head, Q* y) {
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t keys = item.kv_length - item.query_length + row + 1;
  const int64_t slot = item.first_slot + (row * a.query_heads + head) * item.row_slots;
  const int64_t slots = item.row_slots == 1 ? 1 : (keys + kAttentionBlock - 1) / kAttentionBlock;
  PartialView state = slot_view(a.workspace, slot, padded);
  alignas(64) float values[kMaxAttentionHeadDim];
  float maximum;
  float sum;
  if (slots > 1) {
    const PartialView copy = {values, &maximum, &sum};
    copy_partial(copy, state, padded);
    for (int64_t i = 1; i < slots; ++i) fold(copy, slot_view(a.workspace, slot + i, padded), padded);
    state = copy;
  }
  const V divisor = set(*state.sum);
  for (int64_t i = 0; i < a.head_dim; i += 16) store_up_to(y + i, load(state.values + i) / divisor, a.head_dim - i);
}

/// Tile t: head t % query_heads of token t / query_heads.
template <typename Q>
void attention_merge(const void* arguments, int64_t first, int64_t last) {
  const AttentionArguments& a = *static_cast<const AttentionArguments*>(arguments);
  const int32_t* tail = tail_of<AttentionArguments>(arguments);
  const AttentionItem* items = reinterpret_cast<const AttentionItem*>(tail + 2);
  const int64_t sequences = tail[0];
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / a.query_heads;
    const int64_t head = tile % a.query_heads;
    Q* y = static_cast<Q*>(a.y) + token * a.y_row_stride + head * a.head_dim;
    const int64_t sequence = find_item(items, sequences, &AttentionItem::query_start, token);
    const AttentionItem& item = items[sequence];
    if (token >= items[sequences].query_start || item.kv_length == 0) {
      memset(y, 0, static_cast<size_t>(a.head_dim) * sizeof(Q));
    } else {
      merge_row(a, item, token - item.query_start, head, y);
    }
  }
}

constexpr AttentionKernels kAttentionKernels = {{attention_partial<float>, attention_partial<Bf16>},
                                                attention_partial<int8_t>,
                                                {attention_merge<float>, attention_merge<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
