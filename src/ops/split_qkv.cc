#include "ops/split_qkv.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/kv_cache.h"
#include "ops/norm.h"
#include "ops/reference_access.h"
#include "ops/rope.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

enum Input : size_t {
  kQkv,
  kQWeight,
  kKWeight,
  kQBias,
  kKBias,
  kPositions,
  kTable,
  kSlots,
  kKCache,
  kVCache,
  kKScales,
  kVScales
};

/// float32, or of `other`.
void require_head_vector(const OpCall& call, size_t input, const Dim& head_dim, DType other) {
  if (!call.inputs[input].defined()) return;
  if (call.inputs[input].dtype() != other) require_dtype(call, input, DType::kF32);
  require_shape(call, input, Shape{head_dim});
  require_contiguous(call, input);
}

/// Checks what both operators share and gives the metadata of q and k.
std::array<TensorMeta, 2> checked_heads(const OpCall& call) {
  const Tensor& qkv = call.inputs[kQkv];
  const int64_t heads = call.int_attribute(0);
  const int64_t kv_heads = call.int_attribute(1);
  require_float(call, kQkv);
  require_rank(call, kQkv, 2);
  require_contiguous(call, kQkv);
  require_rank(call, kTable, 2);
  const Dim head_dim = call.inputs[kTable].shape()[1];
  if (head_dim.value() % 2 != 0) {
    fail_argument(call, kTable,
                  fmt::format("has shape {}, expected an even last axis", call.inputs[kTable].shape().to_string()));
  }
  constexpr int64_t kMostHeads = 1 << 20;  // keeps the product below from overflowing
  if (heads < 1 || kv_heads < 1 || heads > kMostHeads || kv_heads > kMostHeads) {
    throw Error(ErrorCode::kInvalidArgument, "{}: attributes 'heads' and 'kv_heads' are {} and {}, expected 1 to {}",
                call.op.name(), heads, kv_heads, kMostHeads);
  }
  require_shape(call, kQkv, Shape{qkv.shape()[0], head_dim * (heads + 2 * kv_heads)});
  for (const size_t vector : {kQWeight, kKWeight}) require_head_vector(call, vector, head_dim, qkv.dtype());
  for (const size_t vector : {kQBias, kKBias}) require_head_vector(call, vector, head_dim, DType::kF32);
  if (call.inputs[kQBias].defined() != call.inputs[kKBias].defined()) {
    fail_argument(call, call.inputs[kQBias].defined() ? kKBias : kQBias, "is absent, expected both biases or none");
  }
  require_dtype(call, kPositions, DType::kI32);
  require_shape(call, kPositions, Shape{qkv.shape()[0]});
  require_contiguous(call, kPositions);
  require_dtype(call, kTable, DType::kF32);
  require_contiguous(call, kTable);
  return {TensorMeta(qkv.dtype(), Shape{qkv.shape()[0], heads, head_dim}),
          TensorMeta(qkv.dtype(), Shape{qkv.shape()[0], kv_heads, head_dim})};
}

void infer_split(const OpCall& call, std::span<TensorMeta> outputs) {
  const auto heads = checked_heads(call);
  outputs[0] = heads[0];
  outputs[1] = heads[1];
}

void infer_split_store(const OpCall& call, std::span<TensorMeta> outputs) {
  const auto heads = checked_heads(call);
  outputs[0] = heads[0];
  require_dtype(call, kSlots, DType::kI32);
  require_shape(call, kSlots, Shape{heads[1].shape[0]});
  require_contiguous(call, kSlots);
  require_caches(call, kKCache, heads[1].shape);
}

/// q and k of the merged rows, normed and turned.
void split_heads(const OpCall& call, const Tensor& q, const Tensor& k) {
  const Tensor& qkv = call.inputs[kQkv];
  int64_t first_head = 0;
  for (const size_t part : {0, 1}) {
    const Tensor& y = part == 0 ? q : k;
    TensorMeta heads = y.meta();
    heads.strides[0] = qkv.stride(0);
    const size_t offset = static_cast<size_t>(first_head * y.size(2)) * size_of(qkv.dtype());
    reference_norm_of(qkv.with_meta(heads, offset), call.inputs[kQWeight + part], call.inputs[kQBias + part],
                      call.float_attribute(2), y);
    reference_rope_of(y, call.inputs[kPositions], call.inputs[kTable], y);
    first_head += y.size(1);
  }
}

void reference_split(const OpCall& call) { split_heads(call, call.outputs[0], call.outputs[1]); }

void reference_split_store(const OpCall& call) {
  const Tensor& qkv = call.inputs[kQkv];
  const int64_t kv_heads = call.int_attribute(1);
  const int64_t head_dim = call.inputs[kTable].size(1);
  TensorMeta meta(qkv.dtype(), {qkv.size(0), kv_heads, head_dim});
  std::vector<std::byte> memory(meta.contiguous_bytes());
  const Tensor k = Tensor::borrowed(meta, memory.data());
  split_heads(call, call.outputs[0], k);
  meta.strides[0] = qkv.stride(0);
  const int64_t first_head = call.int_attribute(0) + kv_heads;
  const Tensor v = qkv.with_meta(meta, static_cast<size_t>(first_head * head_dim) * size_of(qkv.dtype()));
  reference_store_of(k, call.inputs[kSlots], call.inputs[kKCache], call.inputs[kKScales]);
  reference_store_of(v, call.inputs[kSlots], call.inputs[kVCache], call.inputs[kVScales]);
}

}  // namespace

Qkv split_qkv_rms_norm_rope(ForwardContext& context, const Tensor& qkv, const QkNorm& norm, const Tensor& table,
                            int64_t heads, int64_t kv_heads, std::source_location where) {
  auto [q, k] =
      dispatch_call_of<2>(context, "split_qkv_rms_norm_rope",
                          {qkv, norm.q_weight, norm.k_weight, norm.q_bias, norm.k_bias, context.positions, table},
                          {heads, kv_heads, norm.epsilon}, where);
  const Tensor all = reshape(context, qkv, {qkv.shape()[0], heads + 2 * kv_heads, table.shape()[1]}, where);
  return {q, k, slice(context, all, 1, heads + kv_heads, heads + 2 * kv_heads, where)};
}

Tensor split_qkv_rms_norm_rope_store(ForwardContext& context, const Tensor& qkv, const QkNorm& norm,
                                     const Tensor& table, int64_t heads, int64_t kv_heads, const Tensor& k_cache,
                                     const Tensor& v_cache, const KvScales& scales, std::source_location where) {
  return dispatch_call(context, "split_qkv_rms_norm_rope_store",
                       {qkv, norm.q_weight, norm.k_weight, norm.q_bias, norm.k_bias, context.positions, table,
                        context.slots, k_cache, v_cache, scales.k, scales.v},
                       {}, {heads, kv_heads, norm.epsilon}, where);
}

void register_split_qkv(Registry& registry) {
  registry.add(
      OpDef("split_qkv_rms_norm_rope_store(Tensor qkv, Tensor q_weight, Tensor k_weight, Tensor? q_bias, "
            "Tensor? k_bias, Tensor positions, Tensor table, Tensor slots, Tensor! k_cache, Tensor! v_cache, "
            "Tensor?! k_scales, Tensor?! v_scales, *, int heads, int kv_heads, float epsilon) -> Tensor q",
            {}, infer_split_store, reference_split_store));
  registry.add(
      OpDef("split_qkv_rms_norm_rope(Tensor qkv, Tensor q_weight, Tensor k_weight, Tensor? q_bias, Tensor? k_bias, "
            "Tensor positions, Tensor table, *, int heads, int kv_heads, float epsilon) -> Tensor q, Tensor k",
            {}, infer_split, reference_split));
}

}  // namespace reprise::ops
