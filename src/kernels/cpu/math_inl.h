// What kernels share beyond the vector type. Included at the end of each vector_*_inl.h.

namespace reprise::kernels::cpu::REPRISE_ISA {

REPRISE_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
REPRISE_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

REPRISE_INLINE float to_float(float value) { return value; }
REPRISE_INLINE float to_float(Bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

/// Loads or stores 16 elements, or as many as are left.
template <typename T>
REPRISE_INLINE V load_up_to(const T* from, int64_t left) {
  return left >= 16 ? load(from) : load_first(from, left);
}
template <typename T>
REPRISE_INLINE void store_up_to(T* to, V value, int64_t left) {
  if (left >= 16) {
    store(to, value);
  } else {
    store_first(to, value, left);
  }
}

/// The value as it would be read back after a store as T.
REPRISE_INLINE V rounded_as(V value, const float*) { return value; }
REPRISE_INLINE V rounded_as(V value, const Bf16*) {
  Bf16 buffer[16];
  store(buffer, value);
  return load(buffer);
}

/// e^x, the only exponential of the kernels: error below 2 units in the last place, exactly 1 for 0, 0 below about
/// -103.97, infinity above about 88.72, NaN for NaN. x = n ln2 + r with the integer n nearest to x / ln2, then the
/// polynomial of degree 7 for e^r on [-ln2/2, ln2/2] from Cephes (expf), scaled by 2^n in two steps, so that results
/// may be subnormal.
REPRISE_INLINE V exp(V x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // The operands' order lets a NaN through.
  const V bounded = min(set(89.0f), max(set(-104.0f), x));
  const V shifted = fma(bounded, set(1.44269504f), set(kMagic));
  const V n = shifted - set(kMagic);
  V r = fma(n, set(-0.693359375f), bounded);
  r = fma(n, set(2.12194440e-4f), r);
  V p = set(1.9875691500e-4f);
  p = fma(p, r, set(1.3981999507e-3f));
  p = fma(p, r, set(8.3334519073e-3f));
  p = fma(p, r, set(4.1665795894e-2f));
  p = fma(p, r, set(1.6666665459e-1f));
  p = fma(p, r, set(5.0000001201e-1f));
  p = fma(p, r * r, r) + set(1.0f);
  return scale_by_power(p, shifted, kMagic);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
