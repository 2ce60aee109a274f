// Compiled once for each instruction set, see foreach_instruction_set.h.

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

template <typename T>
void rms_norm(const void* arguments, int64_t first, int64_t last) {
  const RmsNormArguments& a = *static_cast<const RmsNormArguments*>(arguments);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / a.heads;
    const int64_t head = tile % a.heads;
    const T* x = static_cast<const T*>(a.x) + token * a.x_token_stride + head * a.x_head_stride;
    T* y = static_cast<T*>(a.y) + token * a.y_token_stride + head * a.y_head_stride;
    const float mean = sum_of_squares(x, a.width) / static_cast<float>(a.width);
    const V scale = set(1.0f / __builtin_sqrtf(mean + a.epsilon));
    for (int64_t i = 0; i < a.width; i += 16) {
      const int64_t left = a.width - i;
      store_up_to(y + i, load_up_to(x + i, left) * scale * load_up_to(a.weight + i, left), left);
    }
  }
}

constexpr NormKernels kNormKernels = {{rms_norm<float>, rms_norm<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
