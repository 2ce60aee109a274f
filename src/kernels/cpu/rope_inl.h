// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/rope_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
void rope(const void* arguments, int64_t first, int64_t last) {
  const RopeArguments& a = *static_cast<const RopeArguments*>(arguments);
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
    rope_row(x, y, a.table + position * a.head_dim, a.head_dim);
  }
}

constexpr RopeKernels kRopeKernels = {{rope<float>, rope<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
