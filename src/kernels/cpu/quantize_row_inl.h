// Rows to int8. Included by what is compiled once for each instruction set.
//
// A row is anything with `V at(i, left)`, which gives 16 values from column i on (zeros past the `left` ones that there
// are), rounded as the operator that would have stored them does.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Values as they lie in memory.
template <typename T>
struct PlainRow {
  const T* x;
  REPRISE_INLINE V at(int64_t i, int64_t left) const { return load_up_to(x + i, left); }
};

/// Adding it rounds floats of up to 2^22 to integers, half to even.
constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23

/// Rounds to integers, half to even, within what any int8 and offset can make of it; keeps a NaN.
REPRISE_INLINE V rounded_to_integer(V value) {
  constexpr float kLargest = 4194304.0f;  // 2^22
  // The operands' order lets a NaN through, here and below.
  const V bounded = min(set(kLargest), max(set(-kLargest), value));
  return (bounded + set(kRoundingMagic)) - set(kRoundingMagic);
}

/// 16 values from -128 to 127, or NaN, rounded half to even; NaN gives 0.
#if REPRISE_VECTOR_BITS == 512
REPRISE_INLINE __m128i to_int8(V value) {
  const __mmask16 numbers = _mm512_cmp_ps_mask(value.all, value.all, _CMP_ORD_Q);
  return _mm512_maskz_cvtepi32_epi8(0xFFFF, _mm512_maskz_cvtps_epi32(numbers, value.all));
}
#elif REPRISE_VECTOR_BITS == 256
REPRISE_INLINE __m256i to_int32_or_zero(__m256 value) {
  const __m256i numbers = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_ORD_Q));
  return _mm256_and_si256(_mm256_cvtps_epi32(value), numbers);
}
REPRISE_INLINE __m128i to_int8(V value) {
  // Packing works within halves of the registers.
  const __m256i pairs =
      _mm256_permute4x64_epi64(_mm256_packs_epi32(to_int32_or_zero(value.low), to_int32_or_zero(value.high)), 0xD8);
  return _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}
#else
struct SixteenBytes {
  int8_t at[16];
};
REPRISE_INLINE SixteenBytes to_int8(V value) {
  float shifted[16];
  store(shifted, value + set(kRoundingMagic));
  SixteenBytes bytes;
  for (int i = 0; i < 16; ++i) {
    int32_t integer;
    memcpy(&integer, &shifted[i], sizeof(integer));
    integer -= 0x4B400000;  // the bits of kRoundingMagic
    bytes.at[i] = static_cast<int8_t>(integer >= -128 && integer <= 127 ? integer : 0);
  }
  return bytes;
}
#endif

/// Rounds half to even and saturates; NaN gives 0.
REPRISE_INLINE void store_int8(int8_t* to, V value, int64_t left) {
  // The operands' order lets a NaN through.
  const auto bytes = to_int8(min(set(127.0f), max(set(-128.0f), value)));
  if (left >= 16) {
    memcpy(to, &bytes, 16);
  } else {
    memcpy(to, &bytes, static_cast<size_t>(left));
  }
}

REPRISE_INLINE V load_or_repeat(const float* from, int64_t step, int64_t i, int64_t left) {
  return step == 0 ? set(*from) : load_up_to(from + i, left);
}

template <typename Row>
REPRISE_INLINE void quantize_row(const Row& row, int64_t columns, const QuantizeScales& scales, int8_t* y) {
  for (int64_t i = 0; i < columns; i += 16) {
    const int64_t left = columns - i;
    const V inverse = set(1.0f) / load_or_repeat(scales.scale, scales.scale_step, i, left);
    V value = rounded_to_integer(row.at(i, left) * inverse);
    if (scales.offset != nullptr) value = value + load_or_repeat(scales.offset, scales.offset_step, i, left);
    store_int8(y + i, value, left);
  }
}

template <typename Row>
REPRISE_INLINE V smoothed(const Row& row, const float* smooth_scales, int64_t i, int64_t left) {
  const V value = row.at(i, left);
  return smooth_scales == nullptr ? value : value * load_up_to(smooth_scales + i, left);
}

/// Returns the scale.
template <typename Row>
REPRISE_INLINE float dynamic_quantize_row(const Row& row, int64_t columns, const float* smooth_scales, int8_t* y) {
  V largest = zero();
  V nan_marks = zero();  // max() forgets a NaN, this sum does not
  for (int64_t i = 0; i < columns; i += 16) {
    const V value = smoothed(row, smooth_scales, i, columns - i);
    const V magnitude = max(value, zero() - value);
    largest = max(magnitude, largest);
    nan_marks = nan_marks + min(set(1.0f), magnitude);
  }
  const float marks = reduce_add(nan_marks);
  const float scale = (marks == marks ? reduce_max(largest) : marks) / 127.0f;
  if (scale == 0.0f) {
    memset(y, 0, static_cast<size_t>(columns));
    return scale;
  }
  for (int64_t i = 0; i < columns; i += 16) {
    const int64_t left = columns - i;
    store_int8(y + i, smoothed(row, smooth_scales, i, left) / set(scale), left);
  }
  return scale;
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
