// Compiled once for each instruction set, see foreach_instruction_set.h.

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
void rope(const void* arguments, int64_t first, int64_t last) {
  const RopeArguments& a = *static_cast<const RopeArguments*>(arguments);
  const int64_t half = a.head_dim / 2;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / a.heads;
    const int64_t head = tile % a.heads;
    const T* x = static_cast<const T*>(a.x) + token * a.x_token_stride + head * a.x_head_stride;
    T* y = static_cast<T*>(a.y) + token * a.y_token_stride + head * a.y_head_stride;
    const int64_t position = a.positions[token];
    if (position < 0 || position >= a.max_position) {
      memset(y, 0, static_cast<size_t>(a.head_dim) * sizeof(T));
      continue;
    }
    const float* cosine = a.table + position * a.head_dim;
    const float* sine = cosine + half;
    for (int64_t i = 0; i < half; i += 16) {
      const int64_t left = half - i;
      const V low = load_up_to(x + i, left);
      const V high = load_up_to(x + half + i, left);
      const V c = load_up_to(cosine + i, left);
      const V s = load_up_to(sine + i, left);
      store_up_to(y + i, low * c - high * s, left);
      store_up_to(y + half + i, high * c + low * s, left);
    }
  }
}

constexpr RopeKernels kRopeKernels = {{rope<float>, rope<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
