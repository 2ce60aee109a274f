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

namespace reprise::kernels::cpu::REPRISE_ISA {

constexpr float kMinusInfinity = -__builtin_inff();

/// Rows (query row, head) that pass over keys together.
constexpr int kAttentionRows = kRegisterBudget >= 24 ? 4 : 2;

/// Rows lie a page stride apart, which hardware does not foresee: they are asked for so many rows ahead.
constexpr int kPrefetchRows = 8;
/// And so many where several heads are read together, into the second-level cache: they would fill the first.
constexpr int kMergedPrefetchRows = 16;
/// KV heads of a decode step that are read together, and the most query heads on each of them.
constexpr int64_t kMergedHeads = 8;
constexpr int kMergedRows = 4;

/// Maximum, sum and weighted values of a row and head over some keys; `values` holds padded_head_dim() floats.
struct PartialView {
  float* values;
  float* maximum;
  float* sum;
};
REPRISE_INLINE PartialView slot_view(float* workspace, int64_t slot, int64_t padded) {
  float* values = workspace + slot * (padded + 16);
  return {values, values + padded, values + padded + 1};
}

/// state <- state and, after it, block.
REPRISE_INLINE void fold(PartialView state, PartialView block, int64_t padded) {
  const V old_maximum = set(*state.maximum);
  const V block_maximum = set(*block.maximum);
  const V maximum = max(old_maximum, block_maximum);
  const V old_weight = exp(old_maximum - maximum);
  const V block_weight = exp(block_maximum - maximum);
  V sum = fma(set(*state.sum), old_weight, set(*block.sum) * block_weight);
  store_first(state.maximum, maximum, 1);
  store_first(state.sum, sum, 1);
  for (int64_t i = 0; i < padded; i += 16) {
    store(state.values + i, fma(load(state.values + i), old_weight, load(block.values + i) * block_weight));
  }
}

REPRISE_INLINE void copy_partial(PartialView to, PartialView from, int64_t padded) {
  for (int64_t i = 0; i < padded; i += 16) store(to.values + i, load(from.values + i));
  *to.maximum = *from.maximum;
  *to.sum = *from.sum;
}

REPRISE_INLINE void fill_with_nan(PartialView view, int64_t padded) {
  for (int64_t i = 0; i < padded; i += 16) store(view.values + i, set(__builtin_nanf("")));
  *view.maximum = *view.sum = __builtin_nanf("");
}

/// Where the keys and values of one block lie.
template <typename C>
struct BlockRows {
  const C* keys[kAttentionBlock];
  const C* values[kAttentionBlock];
};

/// Finds `count` keys of a block; false if the block table leads out of the cache.
template <typename C>
bool find_rows(const AttentionArguments& a, int64_t sequence, int64_t block, int64_t kv_head, int64_t count,
               BlockRows<C>& rows) {
  const int64_t row_stride = a.kv_heads * a.head_dim;
  const int64_t position = block * kAttentionBlock;
  int64_t entry = position / a.page_size;
  int64_t offset = position % a.page_size;
  const int32_t* table = a.block_table + sequence * a.block_table_stride;
  for (int64_t i = 0; i < count; ++entry, offset = 0) {
    if (entry >= a.block_table_stride || table[entry] < 0 || table[entry] >= a.pages) return false;
    const int64_t first = (table[entry] * a.page_size + offset) * row_stride + kv_head * a.head_dim;
    const C* key = static_cast<const C*>(a.key_cache) + first;
    const C* value = static_cast<const C*>(a.value_cache) + first;
    for (; i < count && offset < a.page_size; ++i, ++offset, key += row_stride, value += row_stride) {
      rows.keys[i] = key;
      rows.values[i] = value;
    }
  }
  return true;
}

/// Asks for a row before it is needed; kLocality 3: into the first-level cache, 2: into the second.
template <int kLocality, typename C>
REPRISE_INLINE void prefetch_row(const C* row, int64_t head_dim) {
  const char* bytes = reinterpret_cast<const char*>(row);
  for (int64_t i = 0; i < head_dim * static_cast<int64_t>(sizeof(C)); i += 64)
    __builtin_prefetch(bytes + i, 0, kLocality);
}

/// products[r][j] = query[r] times the key, lane by lane: what reduce_add_rows() makes scores of.
template <int kRows, typename C>
REPRISE_INLINE void multiply_key(const float* query, int64_t head_dim, const C* key, int64_t j,
                                 V (&products)[kRows][16]) {
  const int64_t padded = padded_head_dim(head_dim);
  V sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = zero();
  int64_t i = 0;
  for (; i + 16 <= head_dim; i += 16) {
    const V k = load(key + i);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r] = fma(load(query + r * padded + i), k, sums[r]);
  }
  if (i < head_dim) {
    const V k = load_first(key + i, head_dim - i);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r] = fma(load(query + r * padded + i), k, sums[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) products[r][j] = sums[r];
}

/// Products of keys that are not there.
template <int kRows>
REPRISE_INLINE void clear_products(int64_t first, V (&products)[kRows][16]) {
  for (int64_t j = first; j < 16; ++j) {
    for (int r = 0; r < kRows; ++r) products[r][j] = zero();
  }
}

/// Scores of 16 keys of a row, minus infinity from `limit` on.
REPRISE_INLINE void store_scores(const V (&products)[16], V scale, int64_t limit, float* scores) {
  store(scores, keep_first(reduce_add_rows(products) * scale, limit, kMinusInfinity));
}

/// scores[r][key] = dot(query[r], key) * scale, minus infinity from limits[r] on; up to the next multiple of 16 keys.
template <int kRows, typename C>
REPRISE_INLINE void score_keys(const AttentionArguments& a, const float* query, const C* const* keys,
                               const int64_t* limits, int64_t count, float (*scores)[kAttentionBlock]) {
  for (int64_t group = 0; group < count; group += 16) {
    V products[kRows][16];
    const int64_t present = smaller(16, count - group);
    for (int64_t j = 0; j < present; ++j) {
      if (group + j + kPrefetchRows < count) prefetch_row<3>(keys[group + j + kPrefetchRows], a.head_dim);
      multiply_key<kRows>(query, a.head_dim, keys[group + j], j, products);
    }
    clear_products<kRows>(present, products);
    for (int r = 0; r < kRows; ++r) store_scores(products[r], set(a.scale), limits[r] - group, scores[r] + group);
  }
}

/// scores <- e^(scores - maximum); writes maximum and sum. Lanes beyond the row's limit add an exact 0.
REPRISE_INLINE void weigh_keys(float* scores, int64_t count, PartialView out) {
  V largest = set(kMinusInfinity);
  for (int64_t i = 0; i < count; i += 16) largest = max(largest, load(scores + i));
  const float maximum = reduce_max(largest);
  V sum = zero();
  for (int64_t i = 0; i < count; i += 16) {
    const V weight = exp(load(scores + i) - set(maximum));
    store(scores + i, weight);
    sum = sum + weight;
  }
  *out.maximum = maximum;
  *out.sum = reduce_add(sum);
}

/// acc[r][v] += weight[r][key] * value[key] for the keys [first, last).
template <int kRows, int kVectors, typename C>
REPRISE_INLINE void add_values(const C* const* values, int64_t offset, int64_t left,
                               const float (*weights)[kAttentionBlock], int64_t first, int64_t last,
                               V (&acc)[kRows][kVectors]) {
  for (int64_t key = first; key < last; ++key) {
    if (key + kPrefetchRows < last) prefetch_row<3>(values[key + kPrefetchRows] + offset, 16 * kVectors);
    V weight[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[r] = set(weights[r][key]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const V value = kVectors > 1 ? load(values[key] + offset + 16 * v) : load_up_to(values[key] + offset, left);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][v] = fma(weight[r], value, acc[r][v]);
    }
  }
}

/// The weighted sums of kVectors * 16 columns. Each row takes exactly the keys below its limit: the others may hold
/// NaN, so that a weight of 0 would not do.
template <int kRows, int kVectors, typename C>
REPRISE_INLINE void sum_columns(const AttentionArguments& a, const C* const* values, int64_t offset,
                                const float (*weights)[kAttentionBlock], const int64_t* limits,
                                const PartialView* out) {
  const int64_t left = a.head_dim - offset;
  V acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) acc[r][v] = zero();
  }
  int64_t common = limits[0];
  for (int r = 1; r < kRows; ++r) common = smaller(common, limits[r]);
  add_values<kRows, kVectors>(values, offset, left, weights, 0, common, acc);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    V own[1][kVectors];
    for (int v = 0; v < kVectors; ++v) own[0][v] = acc[r][v];
    if (limits[r] > common) add_values<1, kVectors>(values, offset, left, weights + r, common, limits[r], own);
    for (int v = 0; v < kVectors; ++v) store(out[r].values + offset + 16 * v, own[0][v]);
  }
}

/// The partial results of kRows rows over one block, of which row r sees the first limits[r] (at least 1) keys.
template <int kRows, typename C>
__attribute__((noinline)) void attend_rows(const AttentionArguments& a, const float* query, const BlockRows<C>& rows,
                                           const int64_t* limits, const PartialView* out) {
  constexpr int kVectors = 8 * kRows <= kRegisterBudget   ? 8
                           : 4 * kRows <= kRegisterBudget ? 4
                                                          : kRegisterBudget / kRows;
  int64_t count = limits[0];
  for (int r = 1; r < kRows; ++r) count = larger(count, limits[r]);
  alignas(64) float scores[kRows][kAttentionBlock];
  score_keys<kRows>(a, query, rows.keys, limits, count, scores);
  for (int r = 0; r < kRows; ++r) weigh_keys(scores[r], count, out[r]);
  int64_t offset = 0;
  for (; offset + 16 * kVectors <= a.head_dim; offset += 16 * kVectors) {
    sum_columns<kRows, kVectors>(a, rows.values, offset, scores, limits, out);
  }
  for (; offset < a.head_dim; offset += 16) sum_columns<kRows, 1>(a, rows.values, offset, scores, limits, out);
}

template <typename C>
REPRISE_INLINE void attend(const AttentionArguments& a, const float* query, const BlockRows<C>& rows, int64_t count,
                           const int64_t* limits, const PartialView* out) {
  if constexpr (kAttentionRows >= 4) {
    if (count == 4) attend_rows<4>(a, query, rows, limits, out);
    if (count == 3) attend_rows<3>(a, query, rows, limits, out);
  }
  if (count == 2) attend_rows<2>(a, query, rows, limits, out);
  if (count == 1) attend_rows<1>(a, query, rows, limits, out);
}

/// Some query rows of one sequence with the heads of one kv head, over one block. Results go to the row's slot of that
/// block, or are folded into the row's only slot.
template <typename Q, typename C>
void attend_block(const AttentionArguments& a, int64_t sequence, const AttentionItem& item, int64_t first_row,
                  int64_t last_row, int64_t kv_head, int64_t block, bool split) {
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t heads = a.query_heads / a.kv_heads;
  const int64_t block_start = block * kAttentionBlock;
  const int64_t first_position = item.kv_length - item.query_length;
  const int64_t needed = smaller(kAttentionBlock, first_position + last_row - block_start);
  if (needed <= 0) return;
  BlockRows<C> rows;
  const bool found = find_rows(a, sequence, block, kv_head, needed, rows);

  alignas(64) float query[kAttentionRows * kMaxAttentionHeadDim];
  alignas(64) float values[kAttentionRows * kMaxAttentionHeadDim];
  float maxima[kAttentionRows];
  float sums[kAttentionRows];
  int64_t limits[kAttentionRows];
  PartialView slots[kAttentionRows];
  PartialView results[kAttentionRows];

  const int64_t begin = larger(first_row, block_start - first_position) * heads;
  int64_t pending = 0;
  for (int64_t i = begin; i < last_row * heads; ++i) {
    const int64_t row = i / heads;
    const int64_t head = kv_head * heads + i % heads;
    const Q* from = static_cast<const Q*>(a.query) + (item.query_start + row) * a.query_row_stride + head * a.head_dim;
    for (int64_t d = 0; d < padded; d += 16) store(query + pending * padded + d, load_up_to(from + d, a.head_dim - d));
    limits[pending] = smaller(kAttentionBlock, first_position + row + 1 - block_start);
    const int64_t slot = item.first_slot + (row * a.query_heads + head) * item.row_slots + (split ? block : 0);
    slots[pending] = slot_view(a.workspace, slot, padded);
    // The first block needs no folding.
    const bool direct = split || block == 0;
    results[pending] =
        direct ? slots[pending] : PartialView{values + pending * padded, maxima + pending, sums + pending};
    ++pending;
    if (pending < kAttentionRows && i + 1 < last_row * heads) continue;
    if (found) {
      attend(a, query, rows, pending, limits, results);
    } else {
      for (int64_t r = 0; r < pending; ++r) fill_with_nan(results[r], padded);
    }
    if (!direct) {
      for (int64_t r = 0; r < pending; ++r) fold(slots[r], results[r], padded);
    }
    pending = 0;
  }
}

/// values[0 .. kVectors) of kRows rows += their weights times the values of the keys [first, last).
template <int kRows, int kVectors, typename C>
REPRISE_INLINE void add_to_slots(const C* const* values, int64_t offset, int64_t column, int64_t left,
                                 const float (*weights)[kAttentionBlock], int64_t first, int64_t last,
                                 const PartialView* out) {
  V acc[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[r][v] = first == 0 ? zero() : load(out[r].values + column + 16 * v);
  }
  add_values<kRows, kVectors>(values, offset + column, left, weights, first, last, acc);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(out[r].values + column + 16 * v, acc[r][v]);
  }
}

/// One query row over one block for several kv heads at once. Their keys lie side by side in memory, so that this reads
/// the cache in its order, as one head alone cannot. The arithmetic is that of attend_rows(). `out` and `query` hold
/// kRows rows for each kv head.
template <int kRows, typename C>
__attribute__((noinline)) void attend_heads(const AttentionArguments& a, const float* query, const BlockRows<C>& rows,
                                            int64_t kv_heads, int64_t count, const PartialView* out) {
  constexpr int kVectors = 8 * kRows <= kRegisterBudget ? 8 : 4 * kRows <= kRegisterBudget ? 4 : 1;
  const int64_t query_stride = kRows * padded_head_dim(a.head_dim);
  alignas(64) float scores[kMergedHeads][kRows][kAttentionBlock];
  for (int64_t group = 0; group < count; group += 16) {
    V products[kMergedHeads][kRows][16];
    const int64_t present = smaller(16, count - group);
    for (int64_t j = 0; j < present; ++j) {
      for (int64_t h = 0; h < kv_heads; ++h) {
        if (group + j + kMergedPrefetchRows < count)
          prefetch_row<2>(rows.keys[group + j + kMergedPrefetchRows] + h * a.head_dim, a.head_dim);
        multiply_key<kRows>(query + h * query_stride, a.head_dim, rows.keys[group + j] + h * a.head_dim, j,
                            products[h]);
      }
    }
    for (int64_t h = 0; h < kv_heads; ++h) {
      clear_products<kRows>(present, products[h]);
      for (int r = 0; r < kRows; ++r) store_scores(products[h][r], set(a.scale), count - group, scores[h][r] + group);
    }
  }
  for (int64_t h = 0; h < kv_heads; ++h) {
    for (int r = 0; r < kRows; ++r) weigh_keys(scores[h][r], count, out[h * kRows + r]);
  }
  // Few keys at a time, so that all heads of a key are read before the stream goes on.
  constexpr int64_t kKeys = 4;
  for (int64_t key = 0; key < count; key += kKeys) {
    const int64_t end = smaller(key + kKeys, count);
    for (int64_t h = 0; h < kv_heads; ++h) {
      const PartialView* views = out + h * kRows;
      const int64_t offset = h * a.head_dim;
      for (int64_t i = key + kMergedPrefetchRows; i < smaller(end + kMergedPrefetchRows, count); ++i)
        prefetch_row<2>(rows.values[i] + offset, a.head_dim);
      int64_t column = 0;
      for (; column + 16 * kVectors <= a.head_dim; column += 16 * kVectors) {
        add_to_slots<kRows, kVectors>(rows.values, offset, column, a.head_dim - column, scores[h], key, end, views);
      }
      for (; column < a.head_dim; column += 16) {
        add_to_slots<kRows, 1>(rows.values, offset, column, a.head_dim - column, scores[h], key, end, views);
      }
    }
  }
}

/// The only query row of a sequence over one block, for the kv heads [first_head, last_head).
template <typename Q, typename C>
void attend_block_of_row(const AttentionArguments& a, int64_t sequence, const AttentionItem& item, int64_t first_head,
                         int64_t last_head, int64_t block) {
  const int64_t padded = padded_head_dim(a.head_dim);
  const int64_t group = a.query_heads / a.kv_heads;
  const int64_t count = smaller(kAttentionBlock, item.kv_length - block * kAttentionBlock);
  BlockRows<C> rows;
  const bool found = find_rows(a, sequence, block, first_head, count, rows);
  alignas(64) float query[kMergedHeads * kMergedRows * kMaxAttentionHeadDim];
  PartialView out[kMergedHeads * kMergedRows];
  const int64_t row_count = (last_head - first_head) * group;
  for (int64_t i = 0; i < row_count; ++i) {
    const int64_t head = first_head * group + i;
    const Q* from = static_cast<const Q*>(a.query) + item.query_start * a.query_row_stride + head * a.head_dim;
    for (int64_t d = 0; d < padded; d += 16) store(query + i * padded + d, load_up_to(from + d, a.head_dim - d));
    out[i] = slot_view(a.workspace, item.first_slot + head * item.row_slots + block, padded);
    if (!found) fill_with_nan(out[i], padded);
  }
  if (!found) return;
  if (group == 1) attend_heads<1>(a, query, rows, last_head - first_head, count, out);
  if (group == 2) attend_heads<2>(a, query, rows, last_head - first_head, count, out);
  if (group == 3) attend_heads<3>(a, query, rows, last_head - first_head, count, out);
  if (group == 4) attend_heads<4>(a, query, rows, last_head - first_head, count, out);
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

template <typename Q, typename C>
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
      attend_block_of_row<Q, C>(a, sequence, item, kv_head, kv_head + done, index);
      continue;
    }
    if (item.query_length <= kAttentionSplitRows) {
      attend_block<Q, C>(a, sequence, item, 0, item.query_length, kv_head, index, true);
      continue;
    }
    // Later rows see more keys; first, last, second, last but one ... balances a cut into equal numbers of tiles.
    const int64_t groups = (item.query_length + kAttentionGroupRows - 1) / kAttentionGroupRows;
    const int64_t group = index % 2 == 0 ? index / 2 : groups - 1 - index / 2;
    const int64_t first_row = group * kAttentionGroupRows;
    const int64_t last_row = smaller(first_row + kAttentionGroupRows, item.query_length);
    const int64_t keys = item.kv_length - item.query_length + last_row;
    for (int64_t block = 0; block * kAttentionBlock < keys; ++block) {
      attend_block<Q, C>(a, sequence, item, first_row, last_row, kv_head, block, false);
    }
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

constexpr AttentionKernels kAttentionKernels = {{{attention_partial<float, float>, attention_partial<float, Bf16>},
                                                 {attention_partial<Bf16, float>, attention_partial<Bf16, Bf16>}},
                                                {attention_merge<float>, attention_merge<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
