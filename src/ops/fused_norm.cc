#include "ops/fused_norm.h"

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

/// Checks x, residual and weight, and gives the metadata of the norm and of the sum.
TensorMeta check_add_norm(const OpCall& call) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_same_dtype(call, 1, 0);
  require_shape(call, 1, call.inputs[0].shape());
  require_dense_rows(call, 1);
  require_column_vector_like(call, 2, call.inputs[0].dtype());
  return TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_add_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = outputs[1] = check_add_norm(call);
}

void infer_add_norm_bias(const OpCall& call, std::span<TensorMeta> outputs) {
  infer_add_norm(call, outputs);
  require_column_vector(call, 3);
}

/// With a bias as argument 3, or without; what quantises comes behind it.
template <bool kBias>
void infer_add_norm_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[1] = check_add_norm(call);
  if (kBias) require_column_vector(call, 3);
  require_quantize_scales(call, kBias ? 4 : 3, kBias ? 5 : 4, call.inputs[0].dtype());
  outputs[0] = TensorMeta(DType::kI8, outputs[1].shape);
}

template <bool kBias>
void infer_add_norm_dynamic_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[2] = check_add_norm(call);
  if (kBias) require_column_vector(call, 3);
  const size_t smooth_scales = kBias ? 4 : 3;
  if (call.inputs[smooth_scales].defined()) require_column_vector(call, smooth_scales);
  infer_dynamic_scales(call, outputs.first(2));
}

void infer_add_norm_cast(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[1] = outputs[2] = check_add_norm(call);
  outputs[0] = TensorMeta(DType::kF32, outputs[1].shape);
}

/// Checks ids, table and weight, and gives the metadata of the hidden state.
TensorMeta check_embedding_norm(const OpCall& call) {
  require_lookup(call, 0, 1);
  require_column_vector_like(call, 2, float_dtype_attribute(call, 0), 1);
  return TensorMeta(float_dtype_attribute(call, 0), Shape{call.inputs[0].shape()[0], call.inputs[1].shape()[1]});
}

void infer_embedding_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = outputs[1] = check_embedding_norm(call);
}

void infer_embedding_norm_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[1] = check_embedding_norm(call);
  if (call.inputs[3].defined()) require_column_vector(call, 3, 1);
  require_quantize_scales(call, 4, 5, outputs[1].dtype, 1);
  outputs[0] = TensorMeta(DType::kI8, outputs[1].shape);
}

void infer_embedding_norm_dynamic_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[2] = check_embedding_norm(call);
  for (const size_t vector : {3, 4}) {
    if (call.inputs[vector].defined()) require_column_vector(call, vector, 1);
  }
  outputs[0] = TensorMeta(DType::kI8, outputs[2].shape);
  outputs[1] = TensorMeta(DType::kF32, Shape{outputs[2].shape[0]});
}

void add_to(const Tensor& a_tensor, const Tensor& b_tensor, const Tensor& sum) {
  const RowReader a(a_tensor);
  const RowReader b(b_tensor);
  RowWriter to(sum);
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (int64_t i = 0; i < a.columns(); ++i) to.set(row, i, a(row, i) + b(row, i));
  }
}

/// Writes the sum and its norm.
void add_norm(const OpCall& call, const Tensor& bias, const Tensor& y, const Tensor& sum) {
  add_to(call.inputs[0], call.inputs[1], sum);
  reference_norm_of(sum, call.inputs[2], bias, call.float_attribute(0), y);
}

void reference_add_norm(const OpCall& call) { add_norm(call, {}, call.outputs[0], call.outputs[1]); }

void reference_add_norm_bias(const OpCall& call) { add_norm(call, call.inputs[3], call.outputs[0], call.outputs[1]); }

template <bool kBias>
void reference_add_norm_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[1].meta());
  add_norm(call, kBias ? call.inputs[3] : Tensor(), y.tensor(), call.outputs[1]);
  constexpr size_t kScale = kBias ? 4 : 3;
  reference_quantize_of(y.tensor(), call.inputs[kScale], call.inputs[kScale + 1], call.outputs[0]);
}

template <bool kBias>
void reference_add_norm_dynamic_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[2].meta());
  add_norm(call, kBias ? call.inputs[3] : Tensor(), y.tensor(), call.outputs[2]);
  reference_dynamic_quantize_of(y.tensor(), call.inputs[kBias ? 4 : 3], call.outputs[0], call.outputs[1]);
}

void reference_add_norm_cast(const OpCall& call) {
  add_norm(call, {}, call.outputs[1], call.outputs[2]);
  const RowReader y(call.outputs[1]);
  RowWriter wide(call.outputs[0]);
  for (int64_t row = 0; row < y.rows(); ++row) {
    for (int64_t i = 0; i < y.columns(); ++i) wide.set(row, i, y(row, i));
  }
}

void reference_embedding_norm(const OpCall& call) {
  reference_lookup_of(call.inputs[0], call.inputs[1], call.outputs[1]);
  reference_norm_of(call.outputs[1], call.inputs[2], {}, call.float_attribute(1), call.outputs[0]);
}

/// Writes the hidden state and its norm with the bias that may be argument 3.
void embedding_norm(const OpCall& call, const Tensor& y, const Tensor& hidden) {
  reference_lookup_of(call.inputs[0], call.inputs[1], hidden);
  reference_norm_of(hidden, call.inputs[2], call.inputs[3], call.float_attribute(1), y);
}

void reference_embedding_norm_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[1].meta());
  embedding_norm(call, y.tensor(), call.outputs[1]);
  reference_quantize_of(y.tensor(), call.inputs[4], call.inputs[5], call.outputs[0]);
}

void reference_embedding_norm_dynamic_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[2].meta());
  embedding_norm(call, y.tensor(), call.outputs[2]);
  reference_dynamic_quantize_of(y.tensor(), call.inputs[4], call.outputs[0], call.outputs[1]);
}

void register_quantized_norms(Registry& registry) {
  registry.add(
      OpDef("add_rms_norm_quantize(Tensor x, Tensor residual, Tensor weight, Tensor scale, Tensor? offset, *, "
            "float epsilon) -> Tensor y, Tensor sum",
            {}, infer_add_norm_quantize<false>, reference_add_norm_quantize<false>));
  registry.add(
      OpDef("add_rms_norm_bias_quantize(Tensor x, Tensor residual, Tensor weight, Tensor bias, Tensor scale, "
            "Tensor? offset, *, float epsilon) -> Tensor y, Tensor sum",
            {}, infer_add_norm_quantize<true>, reference_add_norm_quantize<true>));
  registry.add(
      OpDef("add_rms_norm_dynamic_quantize(Tensor x, Tensor residual, Tensor weight, Tensor? smooth_scales, *, "
            "float epsilon) -> Tensor y, Tensor scales, Tensor sum",
            {}, infer_add_norm_dynamic_quantize<false>, reference_add_norm_dynamic_quantize<false>));
  registry.add(
      OpDef("add_rms_norm_bias_dynamic_quantize(Tensor x, Tensor residual, Tensor weight, Tensor bias, "
            "Tensor? smooth_scales, *, float epsilon) -> Tensor y, Tensor scales, Tensor sum",
            {}, infer_add_norm_dynamic_quantize<true>, reference_add_norm_dynamic_quantize<true>));
  registry.add(
      OpDef("embedding_rms_norm_quantize(Tensor ids, Tensor table, Tensor weight, Tensor? bias, Tensor scale, "
            "Tensor? offset, *, dtype dtype, float epsilon) -> Tensor y, Tensor hidden",
            {}, infer_embedding_norm_quantize, reference_embedding_norm_quantize));
  registry.add(
      OpDef("embedding_rms_norm_dynamic_quantize(Tensor ids, Tensor table, Tensor weight, Tensor? bias, "
            "Tensor? smooth_scales, *, dtype dtype, float epsilon) -> Tensor y, Tensor scales, Tensor hidden",
            {}, infer_embedding_norm_dynamic_quantize, reference_embedding_norm_dynamic_quantize));
}

}  // namespace

NormAndSum add_rms_norm(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                        double epsilon, std::source_location where) {
  auto [y, sum] = dispatch_call_of<2>(context, "add_rms_norm", {x, residual, weight}, {epsilon}, where);
  return {y, sum};
}

NormAndSum add_rms_norm_bias(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                             const Tensor& bias, double epsilon, std::source_location where) {
  auto [y, sum] = dispatch_call_of<2>(context, "add_rms_norm_bias", {x, residual, weight, bias}, {epsilon}, where);
  return {y, sum};
}

NormAndSum add_rms_norm_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                                 const Tensor& scale, const Tensor& offset, double epsilon,
                                 std::source_location where) {
  auto [y, sum] =
      dispatch_call_of<2>(context, "add_rms_norm_quantize", {x, residual, weight, scale, offset}, {epsilon}, where);
  return {y, sum};
}

NormAndSum add_rms_norm_bias_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                      const Tensor& weight, const Tensor& bias, const Tensor& scale,
                                      const Tensor& offset, double epsilon, std::source_location where) {
  auto [y, sum] = dispatch_call_of<2>(context, "add_rms_norm_bias_quantize", {x, residual, weight, bias, scale, offset},
                                      {epsilon}, where);
  return {y, sum};
}

QuantizedNormAndSum add_rms_norm_bias_dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                                       const Tensor& weight, const Tensor& bias,
                                                       const Tensor& smooth_scales, double epsilon,
                                                       std::source_location where) {
  auto [values, scales, sum] = dispatch_call_of<3>(context, "add_rms_norm_bias_dynamic_quantize",
                                                   {x, residual, weight, bias, smooth_scales}, {epsilon}, where);
  return {{values, scales}, sum};
}

QuantizedNormAndSum add_rms_norm_dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                                  const Tensor& weight, const Tensor& smooth_scales, double epsilon,
                                                  std::source_location where) {
  auto [values, scales, sum] = dispatch_call_of<3>(context, "add_rms_norm_dynamic_quantize",
                                                   {x, residual, weight, smooth_scales}, {epsilon}, where);
  return {{values, scales}, sum};
}

CastNormAndSum add_rms_norm_cast(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                                 double epsilon, std::source_location where) {
  auto [wide, y, sum] = dispatch_call_of<3>(context, "add_rms_norm_cast", {x, residual, weight}, {epsilon}, where);
  return {wide, y, sum};
}

NormAndSum embedding_rms_norm(ForwardContext& context, const Tensor& ids, const Tensor& table, const Tensor& weight,
                              DType dtype, double epsilon, std::source_location where) {
  auto [y, hidden] = dispatch_call_of<2>(context, "embedding_rms_norm", {ids, table, weight}, {dtype, epsilon}, where);
  return {y, hidden};
}

NormAndSum embedding_rms_norm_quantize(ForwardContext& context, const Tensor& ids, const Tensor& table,
                                       const Tensor& weight, const Tensor& bias, const Tensor& scale,
                                       const Tensor& offset, DType dtype, double epsilon, std::source_location where) {
  auto [y, hidden] = dispatch_call_of<2>(context, "embedding_rms_norm_quantize",
                                         {ids, table, weight, bias, scale, offset}, {dtype, epsilon}, where);
  return {y, hidden};
}

QuantizedNormAndSum embedding_rms_norm_dynamic_quantize(ForwardContext& context, const Tensor& ids, const Tensor& table,
                                                        const Tensor& weight, const Tensor& bias,
                                                        const Tensor& smooth_scales, DType dtype, double epsilon,
                                                        std::source_location where) {
  auto [values, scales, hidden] =
      dispatch_call_of<3>(context, "embedding_rms_norm_dynamic_quantize", {ids, table, weight, bias, smooth_scales},
                          {dtype, epsilon}, where);
  return {{values, scales}, hidden};
}

void register_fused_norm(Registry& registry) {
  registry.add(OpDef("add_rms_norm(Tensor x, Tensor residual, Tensor weight, *, float epsilon) -> Tensor y, Tensor sum",
                     {}, infer_add_norm, reference_add_norm));
  registry.add(
      OpDef("add_rms_norm_bias(Tensor x, Tensor residual, Tensor weight, Tensor bias, *, float epsilon) -> "
            "Tensor y, Tensor sum",
            {}, infer_add_norm_bias, reference_add_norm_bias));
  register_quantized_norms(registry);
  registry.add(
      OpDef("add_rms_norm_cast(Tensor x, Tensor residual, Tensor weight, *, float epsilon) -> "
            "Tensor y_float32, Tensor y, Tensor sum",
            {}, infer_add_norm_cast, reference_add_norm_cast));
  registry.add(
      OpDef("embedding_rms_norm(Tensor ids, Tensor table, Tensor weight, *, dtype dtype, float epsilon) -> "
            "Tensor y, Tensor hidden",
            {}, infer_embedding_norm, reference_embedding_norm));
}

}  // namespace reprise::ops
