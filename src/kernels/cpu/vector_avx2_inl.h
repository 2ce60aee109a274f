// V as two AVX registers. Included by foreach_instruction_set.h.

#include "kernels/cpu/vector_x86_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Accumulators of type V that fit into the registers beside operands.
constexpr int kRegisterBudget = 6;
/// Rows that a register tile takes at most.
constexpr int kMaxTileRows = 6;

/// 16 floats.
struct V {
  __m256 low;
  __m256 high;
};

REPRISE_INLINE V set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
REPRISE_INLINE V zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
REPRISE_INLINE V load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
REPRISE_INLINE void store(float* to, V value) {
  _mm256_storeu_ps(to, value.low);
  _mm256_storeu_ps(to + 8, value.high);
}
REPRISE_INLINE __m256 widen_bf16(const Bf16* from) {
  const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}
REPRISE_INLINE V load(const Bf16* from) { return {widen_bf16(from), widen_bf16(from + 8)}; }
REPRISE_INLINE V load(const F16* from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8)))};
}
REPRISE_INLINE V load(const int8_t* from) {
  const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(narrow)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(narrow, 8)))};
}
/// Eight bfloat16 in the lower halves of the lanes.
REPRISE_INLINE __m256i round_to_bf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}
/// Rounds to nearest even; a NaN stays a (quiet) NaN.
REPRISE_INLINE void store(Bf16* to, V value) {
  const __m256i packed = _mm256_packus_epi32(round_to_bf16(value.low), round_to_bf16(value.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
}
/// 16 pairs of bfloat16: the first ones and the second ones of each pair.
REPRISE_INLINE void load_pairs(const Bf16* from, V& first, V& second) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 16));
  first = {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
  second = {_mm256_castsi256_ps(_mm256_and_si256(low, mask)), _mm256_castsi256_ps(_mm256_and_si256(high, mask))};
}

/// Both of a pair of bfloat16, each in all lanes: by vector instructions, which are fewer than those of scalars.
REPRISE_INLINE void set_pair(const Bf16* from, V& first, V& second) {
  int32_t bits;
  memcpy(&bits, from, sizeof(bits));
  const __m256i pairs = _mm256_set1_epi32(bits);
  const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  const __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
  first = {even, even};
  second = {odd, odd};
}

REPRISE_INLINE V operator+(V a, V b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
REPRISE_INLINE V operator-(V a, V b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
REPRISE_INLINE V operator*(V a, V b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
REPRISE_INLINE V operator/(V a, V b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
/// a * b + c with one rounding.
REPRISE_INLINE V fma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/// The larger one; b where one of them is NaN.
REPRISE_INLINE V max(V a, V b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
/// The smaller one; b where one of them is NaN.
REPRISE_INLINE V min(V a, V b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }

REPRISE_INLINE __m256i first_lanes(int64_t count) {
  const int32_t limit = count < 0 ? 0 : count > 8 ? 8 : static_cast<int32_t>(count);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/// The first `count` lanes of a, `other` in the rest; any count.
REPRISE_INLINE V keep_first(V a, int64_t count, float other) {
  const __m256 fill = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(fill, a.low, _mm256_castsi256_ps(first_lanes(count))),
          _mm256_blendv_ps(fill, a.high, _mm256_castsi256_ps(first_lanes(count - 8)))};
}
/// The sum of the lanes, in a fixed order.
REPRISE_INLINE float reduce_add(V a) { return reduce_add_eight(_mm256_add_ps(a.low, a.high)); }
REPRISE_INLINE float reduce_max(V a) { return reduce_max_eight(_mm256_max_ps(a.low, a.high)); }
/// Lane i: the sum of rows[i], in a fixed order.
REPRISE_INLINE V reduce_add_rows(const V (&rows)[16]) {
  __m256 sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = _mm256_add_ps(rows[i].low, rows[i].high);
  return {reduce_add_eight_rows(sums), reduce_add_eight_rows(sums + 8)};
}
REPRISE_INLINE __m256 scale_eight_by_power(__m256 value, __m256 shifted, __m256i magic_bits) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), magic_bits);
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(value, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
/// value * 2^n for n = bits(shifted) - bits(magic), the integer that adding `magic` (1.5 * 2^23) rounds to.
REPRISE_INLINE V scale_by_power(V value, V shifted, float magic) {
  const __m256i magic_bits = _mm256_castps_si256(_mm256_set1_ps(magic));
  return {scale_eight_by_power(value.low, shifted.low, magic_bits),
          scale_eight_by_power(value.high, shifted.high, magic_bits)};
}

/// The first `count` (1 to 16) elements; zeros in the other lanes, whose memory is not touched.
template <typename T>
REPRISE_INLINE V load_first(const T* from, int64_t count) {
  T buffer[16] = {};
  memcpy(buffer, from, static_cast<size_t>(count) * sizeof(T));
  return load(buffer);
}
template <typename T>
REPRISE_INLINE void store_first(T* to, V value, int64_t count) {
  T buffer[16];
  store(buffer, value);
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA

#include "kernels/cpu/math_inl.h"
