// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/norm_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
void rms_norm(const void* arguments, int64_t first, int64_t last) {
  const RmsNormArguments& a = *static_cast<const RmsNormArguments*>(arguments);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / a.heads;
    const int64_t head = tile % a.heads;
    const T* x = static_cast<const T*>(a.x) + token * a.x_token_stride + head * a.x_head_stride;
    T* y = static_cast<T*>(a.y) + token * a.y_token_stride + head * a.y_head_stride;
    norm_row(x, y, a.width, a.weight, a.bias, a.epsilon);
  }
}

constexpr NormKernels kNormKernels = {{rms_norm<float>, rms_norm<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
