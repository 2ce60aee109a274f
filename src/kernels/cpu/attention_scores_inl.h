// Products of queries with keys. Included by attention_inl.h, once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// A row's query holds so many elements, zeros at the end.
constexpr int64_t query_stride(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

/// How queries meet keys of any type: 16 columns at a time, in float32.
struct FloatDot {
  using Element = float;
  using Lanes = V;
  static constexpr int64_t kStep = 16;
  template <typename C>
  static REPRISE_INLINE V take(const C* from) {
    return load(from);
  }
  template <typename C>
  static REPRISE_INLINE V take_first(const C* from, int64_t count) {
    return load_first(from, count);
  }
  static REPRISE_INLINE V multiply_add(V query, V key, V sum) { return fma(query, key, sum); }
};

/// What queries are kept as to meet keys of type C.
template <typename C>
struct DotOf {
  using Type = FloatDot;
};

#if defined(REPRISE_HAS_BF16_DOT)
/// bfloat16 both, 32 columns at a time: products of neighbours are added to each other before they are added to the
/// sum.
struct Bf16Dot {
  using Element = Bf16;
  using Lanes = __m512bh;
  static constexpr int64_t kStep = 32;
  static REPRISE_INLINE __m512bh of_bits(__m512i bits) {
    __m512bh lanes;
    memcpy(&lanes, &bits, sizeof(lanes));
    return lanes;
  }
  static REPRISE_INLINE __m512bh take(const Bf16* from) { return of_bits(_mm512_loadu_si512(from)); }
  static REPRISE_INLINE __m512bh take_first(const Bf16* from, int64_t count) {
    return of_bits(_mm512_maskz_loadu_epi16((1u << count) - 1u, from));
  }
  static REPRISE_INLINE V multiply_add(__m512bh query, __m512bh key, V sum) {
    return {_mm512_dpbf16_ps(sum.all, query, key)};
  }
};
template <>
struct DotOf<Bf16> {
  using Type = Bf16Dot;
};
#endif

/// Rows lie a page stride apart, which hardware does not foresee: they are asked for so many rows ahead, into the
/// second-level cache, as all heads of so many would fill the first.
constexpr int64_t kRowsAhead = 16;

/// Rows of keys or values as they lie in a cache.
template <typename C>
struct CacheRows {
  const C* const* rows;
  int64_t count;
  int64_t offset;  ///< of the head
  REPRISE_INLINE const C* at(int64_t key) const { return rows[key] + offset; }
  /// Asks for columns of a later row, before those of `key` are read.
  REPRISE_INLINE void prefetch(int64_t key, int64_t column, int64_t columns) const {
    if (key + kRowsAhead >= count) return;
    const char* bytes = reinterpret_cast<const char*>(at(key + kRowsAhead) + column);
    for (int64_t i = 0; i < columns * static_cast<int64_t>(sizeof(C)); i += 64) __builtin_prefetch(bytes + i, 0, 2);
  }
};
/// Copies of the rows from `first` on, side by side.
template <typename T>
struct PackedRows {
  const T* rows;
  int64_t stride;
  int64_t first;
  REPRISE_INLINE const T* at(int64_t key) const { return rows + (key - first) * stride; }
  REPRISE_INLINE void prefetch(int64_t /*key*/, int64_t /*column*/, int64_t /*columns*/) const {}
};

/// Lane i: the sum of rows[i], in an order that is the same for each i.
#if REPRISE_VECTOR_BITS == 512
/// Each step adds halves of lanes of two vectors and leaves the sums in one: halves of the register first, then
/// quarters of each half, pairs, neighbours.
REPRISE_INLINE V reduce_scores(const V (&rows)[16]) {
  __m512 halves[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512 a = rows[i].all;
    const __m512 b = rows[i + 8].all;
    halves[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xFF00, a, b), _mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0x4E));
  }
  const __m512i crossing = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  __m512 quarters[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 a = halves[i];
    const __m512 b = halves[i + 4];
    quarters[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xF0F0, a, b), _mm512_permutex2var_ps(a, crossing, b));
  }
  __m512 pairs[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512 a = quarters[i];
    const __m512 b = quarters[i + 2];
    pairs[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xCCCC, a, b), _mm512_maskz_shuffle_ps(0xFFFF, a, b, 0x4E));
  }
  const __m512 odd = _mm512_mask_blend_ps(0x5555, pairs[0], pairs[1]);
  return {_mm512_add_ps(_mm512_mask_blend_ps(0xAAAA, pairs[0], pairs[1]), _mm512_maskz_permute_ps(0xFFFF, odd, 0xB1))};
}
#else
REPRISE_INLINE V reduce_scores(const V (&rows)[16]) { return reduce_add_rows(rows); }
#endif

/// sums[r][j] = query[r] times the key first + j, lane by lane: what reduce_scores() makes scores of.
template <typename Dot, int kRows, int kKeys, typename Rows>
REPRISE_INLINE void multiply_keys(const typename Dot::Element* query, int64_t stride, const Rows& keys, int64_t first,
                                  int64_t columns, V (&sums)[kRows][kKeys]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) sums[r][j] = zero();
  }
  int64_t i = 0;
  for (; i + Dot::kStep <= columns; i += Dot::kStep) {
    typename Dot::Lanes q[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) q[r] = Dot::take(query + r * stride + i);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) {
      const typename Dot::Lanes key = Dot::take(keys.at(first + j) + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][j] = Dot::multiply_add(q[r], key, sums[r][j]);
    }
  }
  if (i < columns) {
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) {
      const typename Dot::Lanes key = Dot::take_first(keys.at(first + j) + i, columns - i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        sums[r][j] = Dot::multiply_add(Dot::take(query + r * stride + i), key, sums[r][j]);
    }
  }
}

/// What fits into the registers: all 16 sums, or a part of them.
template <int kRows>
constexpr int kSumRows = kRegisterBudget >= 16               ? kRows
                         : kRegisterBudget >= 4 && kRows > 1 ? 2
                                                             : 1;
template <int kRows>
constexpr int kSumKeys = kRegisterBudget >= 16  ? 16 / kRows
                         : kRegisterBudget >= 4 ? 4 / kSumRows<kRows>
                                                : 2;

/// scores[r][first ...] = dot(query[r], key) for the next 16 / kRows keys.
template <typename Dot, int kRows, typename Rows>
REPRISE_INLINE void score_keys(const typename Dot::Element* query, int64_t stride, const Rows& keys, int64_t first,
                               int64_t columns, float (*scores)[kAttentionBlock]) {
  constexpr int kKeys = 16 / kRows;
  V products[16];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; r += kSumRows<kRows>) {
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; j += kSumKeys<kRows>) {
      V sums[kSumRows<kRows>][kSumKeys<kRows>];
      multiply_keys<Dot>(query + r * stride, stride, keys, first + j, columns, sums);
#pragma GCC unroll 4
      for (int rr = 0; rr < kSumRows<kRows>; ++rr) {
#pragma GCC unroll 16
        for (int jj = 0; jj < kSumKeys<kRows>; ++jj) products[(r + rr) * kKeys + j + jj] = sums[rr][jj];
      }
    }
  }
  float sums[16];
  store(sums, reduce_scores(products));
  for (int r = 0; r < kRows; ++r) memcpy(scores[r] + first, sums + r * kKeys, kKeys * sizeof(float));
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
