// V as one AVX-512 register. Included by foreach_instruction_set.h.

#include "kernels/cpu/vector_x86_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Accumulators of type V that fit into the registers beside operands.
constexpr int kRegisterBudget = 24;
/// Rows that a register tile takes at most.
constexpr int kMaxTileRows = 6;

/// 16 floats.
struct V {
  __m512 all;
};

REPRISE_INLINE V set(float value) { return {_mm512_set1_ps(value)}; }
REPRISE_INLINE V zero() { return {_mm512_setzero_ps()}; }
REPRISE_INLINE __mmask16 first_lanes(int64_t count) {
  const uint32_t limit = count < 0 ? 0u : count > 16 ? 16u : static_cast<uint32_t>(count);
  return static_cast<__mmask16>((1u << limit) - 1u);
}
REPRISE_INLINE __m512 widen_bf16(__m256i narrow) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, narrow), 16));
}
REPRISE_INLINE V load(const float* from) { return {_mm512_loadu_ps(from)}; }
REPRISE_INLINE V load(const Bf16* from) {
  return {widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
REPRISE_INLINE V load(const F16* from) {
  return {_mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
REPRISE_INLINE __m512 widen_int8(__m128i narrow) {
  return _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_maskz_cvtepi8_epi32(0xFFFF, narrow));
}
REPRISE_INLINE V load(const int8_t* from) {
  return {widen_int8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
/// The first `count` (1 to 16) elements; zeros in the other lanes, whose memory is not touched.
REPRISE_INLINE V load_first(const float* from, int64_t count) {
  return {_mm512_maskz_loadu_ps(first_lanes(count), from)};
}
REPRISE_INLINE V load_first(const Bf16* from, int64_t count) {
  return {widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(count), from))};
}
REPRISE_INLINE V load_first(const F16* from, int64_t count) {
  return {_mm512_maskz_cvtph_ps(0xFFFF, _mm256_maskz_loadu_epi16(first_lanes(count), from))};
}
REPRISE_INLINE V load_first(const int8_t* from, int64_t count) {
  return {widen_int8(_mm_maskz_loadu_epi8(first_lanes(count), from))};
}
REPRISE_INLINE void store(float* to, V value) { _mm512_storeu_ps(to, value.all); }
REPRISE_INLINE void store_first(float* to, V value, int64_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), value.all);
}
/// Rounds to nearest even; a NaN stays a (quiet) NaN. (The instruction for it would flush subnormal numbers.)
REPRISE_INLINE __m256i round_to_bf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i upper = _mm512_maskz_srli_epi32(0xFFFF, bits, 16);
  const __m512i bias = _mm512_add_epi32(_mm512_and_si512(upper, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7FFF));
  const __m512i rounded = _mm512_maskz_srli_epi32(0xFFFF, _mm512_add_epi32(bits, bias), 16);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_maskz_cvtepi32_epi16(0xFFFF, _mm512_mask_blend_epi32(is_nan, rounded, quiet));
}
REPRISE_INLINE void store(Bf16* to, V value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), round_to_bf16(value.all));
}
REPRISE_INLINE void store_first(Bf16* to, V value, int64_t count) {
  _mm256_mask_storeu_epi16(to, first_lanes(count), round_to_bf16(value.all));
}
/// 16 pairs of bfloat16: the first ones and the second ones of each pair.
REPRISE_INLINE void load_pairs(const Bf16* from, V& first, V& second) {
  const __m512i pairs = _mm512_loadu_si512(from);
  first = {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, pairs, 16))};
  second = {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))))};
}

/// Both of a pair of bfloat16, each in all lanes: by vector instructions, which are fewer than those of scalars.
REPRISE_INLINE void set_pair(const Bf16* from, V& first, V& second) {
  int32_t bits;
  memcpy(&bits, from, sizeof(bits));
  const __m512i pairs = _mm512_set1_epi32(bits);
  first = {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, pairs, 16))};
  second = {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))))};
}

REPRISE_INLINE V operator+(V a, V b) { return {_mm512_add_ps(a.all, b.all)}; }
REPRISE_INLINE V operator-(V a, V b) { return {_mm512_sub_ps(a.all, b.all)}; }
REPRISE_INLINE V operator*(V a, V b) { return {_mm512_mul_ps(a.all, b.all)}; }
REPRISE_INLINE V operator/(V a, V b) { return {_mm512_div_ps(a.all, b.all)}; }
/// a * b + c with one rounding.
REPRISE_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.all, b.all, c.all)}; }
/// The larger one; b where one of them is NaN.
REPRISE_INLINE V max(V a, V b) { return {_mm512_maskz_max_ps(0xFFFF, a.all, b.all)}; }
/// The smaller one; b where one of them is NaN.
REPRISE_INLINE V min(V a, V b) { return {_mm512_maskz_min_ps(0xFFFF, a.all, b.all)}; }
/// The first `count` lanes of a, `other` in the rest; any count.
REPRISE_INLINE V keep_first(V a, int64_t count, float other) {
  return {_mm512_mask_blend_ps(first_lanes(count), _mm512_set1_ps(other), a.all)};
}

// Here and elsewhere in this file: g++ 12 takes the unmasked intrinsic for a use of an uninitialised register.
REPRISE_INLINE __m256 low_half(__m512 a) { return _mm512_maskz_extractf32x8_ps(0xFF, a, 0); }
REPRISE_INLINE __m256 high_half(__m512 a) { return _mm512_maskz_extractf32x8_ps(0xFF, a, 1); }
/// The sum of the lanes, in a fixed order.
REPRISE_INLINE float reduce_add(V a) { return reduce_add_eight(_mm256_add_ps(low_half(a.all), high_half(a.all))); }
REPRISE_INLINE float reduce_max(V a) { return reduce_max_eight(_mm256_max_ps(low_half(a.all), high_half(a.all))); }
/// Lane i: the sum of rows[i], in a fixed order.
REPRISE_INLINE V reduce_add_rows(const V (&rows)[16]) {
  __m256 sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = _mm256_add_ps(low_half(rows[i].all), high_half(rows[i].all));
  const __m512 low = _mm512_castps256_ps512(reduce_add_eight_rows(sums));
  return {_mm512_maskz_insertf32x8(0xFFFF, low, reduce_add_eight_rows(sums + 8), 1)};
}
/// value * 2^n for n = bits(shifted) - bits(magic), the integer that adding `magic` (1.5 * 2^23) rounds to.
REPRISE_INLINE V scale_by_power(V value, V shifted, float magic) {
  const __m512i magic_bits = _mm512_castps_si512(_mm512_set1_ps(magic));
  const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted.all), magic_bits);
  const __m512i half = _mm512_maskz_srai_epi32(0xFFFF, n, 1);
  const __m512i bias = _mm512_set1_epi32(127);
  const __m512i first = _mm512_maskz_slli_epi32(0xFFFF, _mm512_add_epi32(half, bias), 23);
  const __m512i second = _mm512_maskz_slli_epi32(0xFFFF, _mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
  return {_mm512_mul_ps(_mm512_mul_ps(value.all, _mm512_castsi512_ps(first)), _mm512_castsi512_ps(second))};
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA

#include "kernels/cpu/math_inl.h"
