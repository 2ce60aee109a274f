// Sums of products of int8 in int32, for 16 outputs at once. Included by what is compiled once for each instruction
// set.
//
// Sixteen    16 int32: load and store, +, to_float
// Sums       the running sums, in as many registers as kSumRegisters
// Weights    4 neighbouring inputs of each of the 16 outputs: 64 bytes
// Group      4 neighbouring values of a row of x, in all lanes
//
// Dot products of bytes multiply unsigned by signed ones: x is shifted by 128 there, and `compensation` (see
// int8_linear.h) takes that back. Without them bytes are widened to 16 bits: the instruction that multiplies bytes
// saturates.

namespace reprise::kernels::cpu::REPRISE_ISA {

#if REPRISE_VECTOR_BITS == 512

struct Sixteen {
  __m512i all;
};
REPRISE_INLINE Sixteen load_sixteen(const int32_t* from) { return {_mm512_loadu_si512(from)}; }
REPRISE_INLINE Sixteen load_sixteen_first(const int32_t* from, int64_t count) {
  return {_mm512_maskz_loadu_epi32(first_lanes(count), from)};
}
REPRISE_INLINE void store_sixteen(int32_t* to, Sixteen value) { _mm512_storeu_si512(to, value.all); }
REPRISE_INLINE Sixteen operator+(Sixteen a, Sixteen b) { return {_mm512_add_epi32(a.all, b.all)}; }
REPRISE_INLINE V to_float(Sixteen a) { return {_mm512_maskz_cvtepi32_ps(0xFFFF, a.all)}; }

#if defined(REPRISE_HAS_INT8_DOT)
constexpr int kSumRegisters = 1;
struct Sums {
  __m512i all;
};
struct Weights {
  __m512i all;
};
struct Group {
  __m512i all;
};
REPRISE_INLINE Sums no_sums(const void* compensation) { return {_mm512_loadu_si512(compensation)}; }
REPRISE_INLINE Weights load_weights(const int8_t* from) { return {_mm512_loadu_si512(from)}; }
REPRISE_INLINE Group broadcast_group(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, sizeof(four));
  return {_mm512_xor_si512(_mm512_set1_epi32(four), _mm512_set1_epi32(static_cast<int32_t>(0x80808080u)))};
}
REPRISE_INLINE void add_products(Sums& sums, Group x, Weights w) {
  sums.all = _mm512_dpbusd_epi32(sums.all, x.all, w.all);
}
REPRISE_INLINE Sixteen finish_sums(Sums sums) { return {sums.all}; }
#else
constexpr int kSumRegisters = 2;
/// Two sums for each output: of the first and of the second pair of a group.
struct Sums {
  __m512i low, high;
};
struct Weights {
  __m512i low, high;
};
struct Group {
  __m512i all;
};
REPRISE_INLINE Sums no_sums(const void*) { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
REPRISE_INLINE __m512i widen_bytes(const int8_t* from) {
  return _mm512_maskz_cvtepi8_epi16(0xFFFFFFFFu, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
REPRISE_INLINE Weights load_weights(const int8_t* from) { return {widen_bytes(from), widen_bytes(from + 32)}; }
REPRISE_INLINE Group broadcast_group(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, sizeof(four));
  return {_mm512_maskz_broadcastq_epi64(0xFF, _mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)))};
}
REPRISE_INLINE void add_products(Sums& sums, Group x, Weights w) {
  sums.low = _mm512_add_epi32(sums.low, _mm512_maskz_madd_epi16(0xFFFF, x.all, w.low));
  sums.high = _mm512_add_epi32(sums.high, _mm512_maskz_madd_epi16(0xFFFF, x.all, w.high));
}
REPRISE_INLINE Sixteen finish_sums(Sums sums) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return {_mm512_add_epi32(_mm512_permutex2var_epi32(sums.low, even, sums.high),
                           _mm512_permutex2var_epi32(sums.low, odd, sums.high))};
}
#endif

#elif REPRISE_VECTOR_BITS == 256

struct Sixteen {
  __m256i low, high;
};
REPRISE_INLINE __m256i load_eight(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
REPRISE_INLINE Sixteen load_sixteen(const int32_t* from) { return {load_eight(from), load_eight(from + 8)}; }
REPRISE_INLINE Sixteen load_sixteen_first(const int32_t* from, int64_t count) {
  int32_t padded[16] = {};
  memcpy(padded, from, static_cast<size_t>(count) * sizeof(int32_t));
  return load_sixteen(padded);
}
REPRISE_INLINE void store_sixteen(int32_t* to, Sixteen value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), value.high);
}
REPRISE_INLINE Sixteen operator+(Sixteen a, Sixteen b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
REPRISE_INLINE V to_float(Sixteen a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

#if defined(REPRISE_HAS_INT8_DOT)
constexpr int kSumRegisters = 2;
struct Sums {
  __m256i low, high;
};
struct Weights {
  __m256i low, high;
};
struct Group {
  __m256i all;
};
REPRISE_INLINE Sums no_sums(const void* compensation) {
  const auto* from = static_cast<const char*>(compensation);
  return {load_eight(from), load_eight(from + 32)};
}
REPRISE_INLINE Weights load_weights(const int8_t* from) { return {load_eight(from), load_eight(from + 32)}; }
REPRISE_INLINE Group broadcast_group(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, sizeof(four));
  return {_mm256_set1_epi32(four ^ static_cast<int32_t>(0x80808080u))};
}
REPRISE_INLINE void add_products(Sums& sums, Group x, Weights w) {
  sums.low = _mm256_dpbusd_epi32(sums.low, x.all, w.low);
  sums.high = _mm256_dpbusd_epi32(sums.high, x.all, w.high);
}
REPRISE_INLINE Sixteen finish_sums(Sums sums) { return {sums.low, sums.high}; }
#else
constexpr int kSumRegisters = 4;
/// Two sums for each output: of the first and of the second pair of a group.
struct Sums {
  __m256i at[4];
};
struct Weights {
  __m256i at[4];
};
struct Group {
  __m256i all;
};
REPRISE_INLINE Sums no_sums(const void*) {
  const __m256i none = _mm256_setzero_si256();
  return {{none, none, none, none}};
}
REPRISE_INLINE __m256i widen_bytes(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
REPRISE_INLINE Weights load_weights(const int8_t* from) {
  return {{widen_bytes(from), widen_bytes(from + 16), widen_bytes(from + 32), widen_bytes(from + 48)}};
}
REPRISE_INLINE Group broadcast_group(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, sizeof(four));
  return {_mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(four)))};
}
REPRISE_INLINE void add_products(Sums& sums, Group x, Weights w) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) sums.at[i] = _mm256_add_epi32(sums.at[i], _mm256_madd_epi16(x.all, w.at[i]));
}
/// Neighbours added, in order: hadd works within halves of the registers.
REPRISE_INLINE __m256i add_neighbours(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xD8);
}
REPRISE_INLINE Sixteen finish_sums(Sums sums) {
  return {add_neighbours(sums.at[0], sums.at[1]), add_neighbours(sums.at[2], sums.at[3])};
}
#endif

#else

constexpr int kSumRegisters = 4;
struct Sixteen {
  uint32_t at[16];  ///< unsigned: they wrap around
};
REPRISE_INLINE Sixteen load_sixteen_first(const int32_t* from, int64_t count) {
  Sixteen result = {};
  memcpy(result.at, from, static_cast<size_t>(count) * sizeof(int32_t));
  return result;
}
REPRISE_INLINE Sixteen load_sixteen(const int32_t* from) { return load_sixteen_first(from, 16); }
REPRISE_INLINE void store_sixteen(int32_t* to, Sixteen value) { memcpy(to, value.at, sizeof(value.at)); }
REPRISE_INLINE Sixteen operator+(Sixteen a, Sixteen b) {
  for (int i = 0; i < 16; ++i) a.at[i] += b.at[i];
  return a;
}
REPRISE_INLINE V to_float(Sixteen a) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(static_cast<int32_t>(a.at[i]));
  return load(values);
}
using Sums = Sixteen;
struct Weights {
  const int8_t* from;
};
struct Group {
  int32_t at[4];
};
REPRISE_INLINE Sums no_sums(const void*) { return {}; }
REPRISE_INLINE Weights load_weights(const int8_t* from) { return {from}; }
REPRISE_INLINE Group broadcast_group(const int8_t* x) { return {{x[0], x[1], x[2], x[3]}}; }
REPRISE_INLINE void add_products(Sums& sums, Group x, Weights w) {
  for (int i = 0; i < 16; ++i) {
    int32_t sum = 0;
    for (int j = 0; j < 4; ++j) sum += x.at[j] * w.from[4 * i + j];
    sums.at[i] += static_cast<uint32_t>(sum);
  }
}
REPRISE_INLINE Sixteen finish_sums(Sums sums) { return sums; }

#endif

REPRISE_INLINE Sixteen load_sixteen_up_to(const int32_t* from, int64_t left) {
  return left >= 16 ? load_sixteen(from) : load_sixteen_first(from, left);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
