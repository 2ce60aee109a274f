// From scores to weighted sums of values, and the merge of blocks. Included by attention_inl.h, once for each
// instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

constexpr float kMinusInfinity = -__builtin_inff();

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

/// Scales of the keys and values of a block in an int8 cache, for one head.
struct BlockScales {
  alignas(64) float keys[kAttentionBlock];
  alignas(64) float values[kAttentionBlock];
};

/// Makes weights of the products of a row with the keys below its limit: of score = product * scale (times the key's
/// scale), weight = e^(score - maximum) (times the value's scale, after the sum of weights). Writes maximum and sum.
/// Lanes beyond the limit add an exact 0. `scales` is null for caches without.
REPRISE_INLINE void weigh_keys(float* scores, int64_t limit, float scale, const BlockScales* scales, PartialView out) {
  V largest = set(kMinusInfinity);
  for (int64_t i = 0; i < limit; i += 16) {
    const V factor = scales == nullptr ? set(scale) : load(scales->keys + i) * set(scale);
    const V score = keep_first(load(scores + i) * factor, limit - i, kMinusInfinity);
    store(scores + i, score);
    largest = max(largest, score);
  }
  const float maximum = reduce_max(largest);
  V sum = zero();
  for (int64_t i = 0; i < limit; i += 16) {
    const V weight = exp(load(scores + i) - set(maximum));
    store(scores + i, scales == nullptr ? weight : weight * load(scales->values + i));
    sum = sum + weight;
  }
  *out.maximum = maximum;
  *out.sum = reduce_add(sum);
}

/// Columns (in vectors) that kRows rows sum at a time.
template <int kRows>
constexpr int kSumVectors = kRegisterBudget >= 8 * kRows   ? 8
                            : kRegisterBudget >= 4 * kRows ? 4
                            : kRegisterBudget >= 2 * kRows ? 2
                                                           : 1;

/// `kVectors` vectors of columns of add_values().
template <int kRows, int kVectors, typename Rows>
REPRISE_INLINE void add_columns(const Rows& values, int64_t column, int64_t left,
                                const float (*weights)[kAttentionBlock], int64_t first, int64_t last,
                                const PartialView* out) {
  V acc[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[r][v] = first == 0 ? zero() : load(out[r].values + column + 16 * v);
  }
  for (int64_t key = first; key < last; ++key) {
    values.prefetch(key, column, 16 * kVectors);
    const auto* row = values.at(key) + column;
    V weight[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weight[r] = set(weights[r][key]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const V value = kVectors > 1 ? load(row + 16 * v) : load_up_to(row, left);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][v] = fma(weight[r], value, acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(out[r].values + column + 16 * v, acc[r][v]);
  }
}

/// add_values() from a column on, as many vectors of columns at a time as there are, up to kVectors.
template <int kRows, int kVectors, typename Rows>
REPRISE_INLINE void add_columns_from(const Rows& values, int64_t column, int64_t columns,
                                     const float (*weights)[kAttentionBlock], int64_t first, int64_t last,
                                     const PartialView* out) {
  const int64_t whole = kVectors > 1 ? columns - 16 * kVectors : columns - 1;
  for (; column <= whole; column += 16 * kVectors) {
    add_columns<kRows, kVectors>(values, column, columns - column, weights, first, last, out);
  }
  if constexpr (kVectors > 1) {
    add_columns_from<kRows, kVectors / 2>(values, column, columns, weights, first, last, out);
  }
}

/// out[r] += weight[r][key] * value[key] over the keys [first, last) in their order; from 0 it starts anew.
template <int kRows, typename Rows>
REPRISE_INLINE void add_values(const Rows& values, int64_t columns, const float (*weights)[kAttentionBlock],
                               int64_t first, int64_t last, const PartialView* out) {
  add_columns_from<kRows, kSumVectors<kRows>>(values, 0, columns, weights, first, last, out);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
