// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/norm_row_inl.h"
#include "kernels/cpu/quantize_row_inl.h"
#include "kernels/cpu/rope_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// One head of q (part 0) or k (part 1), normed and turned into y.
template <typename T>
void turn_head(const SplitQkvArguments& a, int64_t token, int part, const T* x, T* y) {
  const int64_t position = a.positions[token];
  if (position < 0 || position >= a.max_position) {
    memset(y, 0, static_cast<size_t>(a.head_dim) * sizeof(T));
    return;
  }
  norm_row(x, y, a.head_dim, a.weight[part], a.bias[part], a.epsilon);
  rope_row(y, y, a.table + position * a.head_dim, a.head_dim);
}

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
    turn_head(a, token, part, x, y);
  }
}

/// How a head goes to its place in a cache: as it is, or as int8 with a scale.
struct StorePlainHead {
  template <typename T>
  static REPRISE_INLINE void key(const SplitQkvStoreArguments& a, int64_t token, int64_t place, const T* x) {
    turn_head(a.split, token, 1, x, static_cast<T*>(a.k_cache) + place * a.split.head_dim);
  }
  template <typename T>
  static REPRISE_INLINE void value(const SplitQkvStoreArguments& a, int64_t place, const T* x) {
    memcpy(static_cast<T*>(a.v_cache) + place * a.split.head_dim, x, static_cast<size_t>(a.split.head_dim) * sizeof(T));
  }
};
struct StoreQuantizedHead {
  template <typename T>
  static REPRISE_INLINE void key(const SplitQkvStoreArguments& a, int64_t token, int64_t place, const T* x) {
    alignas(64) T turned[kMaxStoredHeadDim];
    turn_head(a.split, token, 1, x, turned);
    a.k_scales[place] = dynamic_quantize_row(PlainRow<T>{turned}, a.split.head_dim, nullptr,
                                             static_cast<int8_t*>(a.k_cache) + place * a.split.head_dim);
  }
  template <typename T>
  static REPRISE_INLINE void value(const SplitQkvStoreArguments& a, int64_t place, const T* x) {
    a.v_scales[place] = dynamic_quantize_row(PlainRow<T>{x}, a.split.head_dim, nullptr,
                                             static_cast<int8_t*>(a.v_cache) + place * a.split.head_dim);
  }
};

template <typename T, typename Store>
void split_qkv_rms_norm_rope_store(const void* arguments, int64_t first, int64_t last) {
  const SplitQkvStoreArguments& a = *static_cast<const SplitQkvStoreArguments*>(arguments);
  const SplitQkvArguments& split = a.split;
  const int64_t all_heads = split.heads + 2 * split.kv_heads;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t token = tile / all_heads;
    const int64_t head = tile % all_heads;
    const T* x = static_cast<const T*>(split.qkv) + tile * split.head_dim;
    if (head < split.heads) {
      turn_head(split, token, 0, x, static_cast<T*>(split.q) + (token * split.heads + head) * split.head_dim);
      continue;
    }
    const int64_t slot = a.slots[token];
    if (slot < 0 || slot >= a.slot_count) continue;
    const int64_t place = slot * split.kv_heads + (head - split.heads) % split.kv_heads;
    if (head < split.heads + split.kv_heads) {
      Store::key(a, token, place, x);
    } else {
      Store::value(a, place, x);
    }
  }
}

constexpr SplitQkvKernels kSplitQkvKernels = {
    {split_qkv_rms_norm_rope<float>, split_qkv_rms_norm_rope<Bf16>},
    {split_qkv_rms_norm_rope_store<float, StorePlainHead>, split_qkv_rms_norm_rope_store<Bf16, StorePlainHead>},
    {split_qkv_rms_norm_rope_store<float, StoreQuantizedHead>,
     split_qkv_rms_norm_rope_store<Bf16, StoreQuantizedHead>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
