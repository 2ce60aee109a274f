// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/int8_dot_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// 64 bytes, in as many registers as the instruction set needs; at any address of a word.
typedef uint32_t Words64 __attribute__((vector_size(64), aligned(4), may_alias));

/// Four loads at a time into four sums: adding never waits for the one before, so that only memory limits.
REPRISE_INLINE uint32_t sum_of_words(const uint32_t* words, int64_t count) {
  constexpr int64_t kWidth = 16;
  Words64 sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    for (int64_t part = 0; part < 4; ++part) {
      sums[part] += *reinterpret_cast<const Words64*>(words + i + part * kWidth);
    }
  }
  const Words64 all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  uint32_t sum = 0;
  for (int64_t lane = 0; lane < kWidth; ++lane) sum += all[lane];
  for (; i < count; ++i) sum += words[i];
  return sum;
}

inline void read_all(const void* arguments, int64_t first, int64_t last) {
  const ReadAllArguments& args = *static_cast<const ReadAllArguments*>(arguments);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t begin = tile * args.block;
    args.sums[tile] = sum_of_words(args.words + begin, smaller(args.block, args.count - begin));
  }
}

/// Products that a tile sums up.
constexpr int64_t kTileProducts = int64_t{1} << 22;
/// Chains of float32: more than two instructions a cycle times the cycles of one.
constexpr int kFloatChains = kRegisterBudget >= 16 ? 16 : kRegisterBudget >= 4 ? 4 : 2;
constexpr int kByteChains = (REPRISE_VECTOR_BITS == 512 ? 16 : 8) / kSumRegisters;

/// One instruction's worth of products with 1, added to each lane.
struct FloatProducts {
  static constexpr int64_t kInLane = 1;
  V factor;
  explicit FloatProducts(int32_t value) : factor(set(static_cast<float>(value))) {}
  REPRISE_INLINE V add(V sum, V one) const { return fma(factor, one, sum); }
  static V one() { return set(1.0f); }
};
#if defined(REPRISE_HAS_BF16_DOT)
struct Bf16Products {
  static constexpr int64_t kInLane = 2;
  __m512bh factor;
  static __m512bh pairs_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const __m512i pairs = _mm512_set1_epi32(static_cast<int32_t>(bits >> 16 | (bits & 0xFFFF0000u)));
    __m512bh result;
    memcpy(&result, &pairs, sizeof(result));
    return result;
  }
  explicit Bf16Products(int32_t value) : factor(pairs_of(static_cast<float>(value))) {}
  REPRISE_INLINE V add(V sum, __m512bh one) const { return {_mm512_dpbf16_ps(sum.all, factor, one)}; }
  static __m512bh one() { return pairs_of(1.0f); }
};
#else
using Bf16Products = FloatProducts;
#endif

template <typename Products>
REPRISE_INLINE int64_t sum_of_products(int32_t value) {
  const Products products(value);
  const auto one = Products::one();
  // Chains begin with different numbers, so that no compiler takes them for one.
  V sums[kFloatChains];
#pragma GCC unroll 16
  for (int i = 0; i < kFloatChains; ++i) sums[i] = set(static_cast<float>(i));
  for (int64_t round = 0; round < kTileProducts / (16 * kFloatChains * Products::kInLane); ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kFloatChains; ++i) sums[i] = products.add(sums[i], one);
  }
  float lanes[kFloatChains][16];
#pragma GCC unroll 16
  for (int i = 0; i < kFloatChains; ++i) store(lanes[i], sums[i]);
  int64_t sum = 0;
  for (int i = 0; i < kFloatChains; ++i) {
    for (const float lane : lanes[i]) sum += static_cast<int64_t>(lane) - i;
  }
  return sum;
}

/// What broadcast_group() adds to values: dot products take them for unsigned.
#if defined(REPRISE_HAS_INT8_DOT)
constexpr int32_t kGroupShift = 128;
#else
constexpr int32_t kGroupShift = 0;
#endif

REPRISE_INLINE int64_t sum_of_byte_products(int32_t value) {
  int8_t values[4];
  for (int8_t& factor : values) factor = static_cast<int8_t>(value);
  int8_t bytes[64];
  memset(bytes, 1, sizeof(bytes));
  const int32_t nothing[16] = {};
  Group factor = broadcast_group(values);
  const Weights one = load_weights(bytes);
  Sums sums[kByteChains];
#pragma GCC unroll 16
  for (int i = 0; i < kByteChains; ++i) {
    sums[i] = no_sums(nothing);
    for (int j = 0; j <= i; ++j) add_products(sums[i], factor, one);
  }
  for (int64_t round = 0; round < kTileProducts / (64 * kByteChains); ++round) {
    asm volatile("" : : "r"(&factor) : "memory");  // or products would be made once, before the loop
#pragma GCC unroll 16
    for (int i = 0; i < kByteChains; ++i) add_products(sums[i], factor, one);
  }
  int64_t sum = 0;
#pragma GCC unroll 16
  for (int i = 0; i < kByteChains; ++i) {
    int32_t lanes[16];
    store_sixteen(lanes, finish_sums(sums[i]));
    for (const int32_t lane : lanes) sum += lane - (i + 1) * 4 * (value + kGroupShift);
  }
  return sum - kGroupShift * kTileProducts;
}

template <typename Products>
void multiply_adds(const void* arguments, int64_t first, int64_t last) {
  const MultiplyAddsArguments& a = *static_cast<const MultiplyAddsArguments*>(arguments);
  for (int64_t i = first; i < last; ++i) a.sums[i] = static_cast<int32_t>(sum_of_products<Products>(a.factors[i]));
}
inline void byte_multiply_adds(const void* arguments, int64_t first, int64_t last) {
  const MultiplyAddsArguments& a = *static_cast<const MultiplyAddsArguments*>(arguments);
  for (int64_t i = first; i < last; ++i) a.sums[i] = static_cast<int32_t>(sum_of_byte_products(a.factors[i]));
}

constexpr MeasureKernels kMeasureKernels = {
    {read_all}, {multiply_adds<FloatProducts>, multiply_adds<Bf16Products>, byte_multiply_adds}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
