#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// Takes the heads of q and k out of merged rows [q | k | v], norms each as rms_norm does, rounds it, and turns it as
/// rope does. A position outside the table gives zeros.
struct SplitQkvArguments {
  const void* qkv;         ///< [tokens, (heads + 2 kv_heads) * head_dim]
  const float* weight[2];  ///< of q and of k, [head_dim]
  const float* bias[2];    ///< the same, or null
  const float* table;      ///< [max_position, head_dim]
  const int32_t* positions;
  void* q;  ///< [tokens, heads, head_dim]
  void* k;  ///< [tokens, kv_heads, head_dim]
  int64_t tokens;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t max_position;
  float epsilon;
  float unused = 0;  ///< fills the gap
};
/// A tile is one head of q or k of one token.
int64_t split_qkv_tiles(int64_t tokens, int64_t heads, int64_t kv_heads);

/// The same, with keys and values written to their tokens' slots of the caches [slot_count, kv_heads, head_dim]; a slot
/// outside of them is skipped. `k` is not used. split_qkv_rms_norm_rope_store_int8 quantises each head after it has
/// been rounded, and writes its scale.
struct SplitQkvStoreArguments {
  SplitQkvArguments split;
  const int32_t* slots;  ///< [tokens]
  void* k_cache;
  void* v_cache;
  float* k_scales;  ///< [slot_count, kv_heads] of int8 caches
  float* v_scales;  ///< the same shape
  int64_t slot_count;
};
/// A tile is one head of q, k or v of one token.
int64_t split_qkv_store_tiles(int64_t tokens, int64_t heads, int64_t kv_heads);

/// A turned head is kept before it is quantised.
inline constexpr int64_t kMaxStoredHeadDim = 1024;

struct SplitQkvKernels {
  KernelFunction split_qkv_rms_norm_rope[2];             ///< [element of qkv, q and k]
  KernelFunction split_qkv_rms_norm_rope_store[2];       ///< [element of qkv, q and the caches]
  KernelFunction split_qkv_rms_norm_rope_store_int8[2];  ///< [element of qkv and q]; head_dim up to kMaxStoredHeadDim
};
const SplitQkvKernels& split_qkv_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
