// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/norm_row_inl.h"
#include "kernels/cpu/rope_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
void split_qkv_rms_norm_rope(const void* arguments, int64_t first, int64_t last) {
  const SplitQkvArguments& a = *static_cast<const SplitQkvArguments*>(arguments);
  const int64_t turned_heads = a.heads + a.kv_heads;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / turned_heads;
    const int64_t head = tile % turned_heads;
    const int part = head < a.heads ? 0 : 1;
    const T* x = static_cast<const T*>(a.qkv) + (token * (turned_heads + a.kv_heads) + head) * a.head_dim;
    T* y = part == 0 ? static_cast<T*>(a.q) + (token * a.heads + head) * a.head_dim
                     : static_cast<T*>(a.k) + (token * a.kv_heads + head - a.heads) * a.head_dim;
    const int64_t position = a.positions[token];
    if (position < 0 || position >= a.max_position) {
      memset(y, 0, static_cast<size_t>(a.head_dim) * sizeof(T));
      continue;
    }
    norm_row(x, y, a.head_dim, a.weight[part], a.bias[part], a.epsilon);
    rope_row(y, y, a.table + position * a.head_dim, a.head_dim);
  }
}

constexpr SplitQkvKernels kSplitQkvKernels = {{split_qkv_rms_norm_rope<float>, split_qkv_rms_norm_rope<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
