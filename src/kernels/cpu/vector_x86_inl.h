// Reductions of eight lanes, shared by AVX2 and AVX-512. No include guard: compiled for both.

namespace reprise::kernels::cpu::REPRISE_ISA {

REPRISE_INLINE float reduce_add_eight(__m256 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
REPRISE_INLINE float reduce_max_eight(__m256 a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
/// Lane i: the sum of rows[i]: neighbours, then pairs of neighbours, then the halves.
REPRISE_INLINE __m256 reduce_add_eight_rows(const __m256* rows) {
  const __m256 left = _mm256_hadd_ps(_mm256_hadd_ps(rows[0], rows[1]), _mm256_hadd_ps(rows[2], rows[3]));
  const __m256 right = _mm256_hadd_ps(_mm256_hadd_ps(rows[4], rows[5]), _mm256_hadd_ps(rows[6], rows[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(left, right, 0x20), _mm256_permute2f128_ps(left, right, 0x31));
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
