// The norm of one row. Included by what is compiled once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
REPRISE_INLINE float sum_of_squares(const T* x, int64_t width) {
  V first = zero();
  V second = zero();
  int64_t i = 0;
  for (; i + 32 <= width; i += 32) {
    const V a = load(x + i);
    const V b = load(x + i + 16);
    first = fma(a, a, first);
    second = fma(b, b, second);
  }
  for (; i < width; i += 16) {
    const V a = load_up_to(x + i, width - i);
    first = fma(a, a, first);
  }
  return reduce_add(first + second);
}

/// The normed values of a row before they are rounded, 16 at a time.
template <typename T>
struct NormedRow {
  const T* x;
  const float* weight;
  const float* bias;  ///< or null
  V scale;

  REPRISE_INLINE NormedRow(const T* row, int64_t width, const float* weights, const float* biases, float epsilon)
      : x(row), weight(weights), bias(biases) {
    const float mean = sum_of_squares(row, width) / static_cast<float>(width);
    scale = set(1.0f / __builtin_sqrtf(mean + epsilon));
  }
  REPRISE_INLINE V at(int64_t i, int64_t left) const {
    const V normed = load_up_to(x + i, left) * scale * load_up_to(weight + i, left);
    return bias == nullptr ? normed : normed + load_up_to(bias + i, left);
  }
};

/// y may be x.
template <typename T>
REPRISE_INLINE void norm_row(const T* x, T* y, int64_t width, const float* weight, const float* bias, float epsilon) {
  const NormedRow<T> normed(x, width, weight, bias, epsilon);
  for (int64_t i = 0; i < width; i += 16) store_up_to(y + i, normed.at(i, width - i), width - i);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
