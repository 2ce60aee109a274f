// The weighted sum of a token's experts. Included by what is compiled once for each instruction set.

#ifndef REPRISE_KERNELS_CPU_COMBINE_COLUMNS
#define REPRISE_KERNELS_CPU_COMBINE_COLUMNS
namespace reprise::kernels::cpu {
/// Columns of one tile: few enough that one token of a decode step gives several threads work.
inline constexpr int64_t kCombineColumns = 256;
}  // namespace reprise::kernels::cpu
#endif

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Columns [begin, begin + count) of one token, at most kCombineColumns of them.
template <typename T>
REPRISE_INLINE void combine_piece(const CombineArguments& a, int64_t token, int64_t begin, int64_t count) {
  constexpr int64_t kVectors = kCombineColumns / 16;
  const int64_t vectors = (count + 15) / 16;
  const float* weights = a.weights + token * a.top_k;
  const int32_t* places = a.places + token * a.top_k;
  V sums[kVectors];
  for (int64_t i = 0; i < vectors; ++i) sums[i] = zero();
  for (int64_t j = 0; j < a.top_k; ++j) {
    if (places[j] < 0) continue;
    const T* y = static_cast<const T*>(a.y) + places[j] * a.y_row_stride + begin;
    const V weight = set(weights[j]);
    for (int64_t i = 0; i < vectors; ++i) sums[i] = fma(weight, load_up_to(y + 16 * i, count - 16 * i), sums[i]);
  }
  T* out = static_cast<T*>(a.out) + token * a.columns + begin;
  for (int64_t i = 0; i < vectors; ++i) store_up_to(out + 16 * i, sums[i], count - 16 * i);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
