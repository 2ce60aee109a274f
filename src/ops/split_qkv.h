#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/kv_cache.h"
#include "ops/registry.h"

namespace reprise::ops {

/// What split_qkv_rms_norm_rope norms by: weights [head_dim], float32 or of the dtype of qkv;
/// biases float32 [head_dim] or absent (both or none).
struct QkNorm {
  Tensor q_weight;
  Tensor k_weight;
  Tensor q_bias{};
  Tensor k_bias{};
  double epsilon = 0;
};

struct Qkv {
  Tensor q;  ///< [T, heads, head_dim], contiguous
  Tensor k;  ///< [T, kv_heads, head_dim], contiguous
  Tensor v;  ///< [T, kv_heads, head_dim]: a view of qkv, of which nothing is copied
};
/// Cuts the merged product qkv [T, (heads + 2 kv_heads) head_dim] = [q | k | v], contiguous, float32 or bfloat16, into
/// heads, norms those of q and k and turns them by the table's rows for the context's positions. Exact: bit by bit
///
///   heads = reshape(qkv, [T, heads + 2 kv_heads, head_dim]), cut along axis 1 into q, k and v by slice();
///   q = rope(rms_norm(q, q_weight, epsilon), table), k likewise; with biases rms_norm_bias in the place of rms_norm.
///
/// head_dim is even, table float32 [positions, head_dim] as in rope(). q and k come from the operator
/// split_qkv_rms_norm_rope, v from the views reshape and slice.
Qkv split_qkv_rms_norm_rope(ForwardContext& context, const Tensor& qkv, const QkNorm& norm, const Tensor& table,
                            int64_t heads, int64_t kv_heads,
                            std::source_location where = std::source_location::current());

/// The same, with the keys and values written to the context's slots of the caches as store_kv() does, instead of being
/// returned. Gives q.
Tensor split_qkv_rms_norm_rope_store(ForwardContext& context, const Tensor& qkv, const QkNorm& norm,
                                     const Tensor& table, int64_t heads, int64_t kv_heads, const Tensor& k_cache,
                                     const Tensor& v_cache, const KvScales& scales = {},
                                     std::source_location where = std::source_location::current());

void register_split_qkv(Registry& registry);

}  // namespace reprise::ops
