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
  require_column_vector(call, 2);
  return TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_add_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = outputs[1] = check_add_norm(call);
}

void infer_add_norm_bias(const OpCall& call, std::span<TensorMeta> outputs) {
  infer_add_norm(call, outputs);
  require_column_vector(call, 3);
}

void infer_add_norm_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[1] = check_add_norm(call);
  require_quantize_scales(call, 3, 4);
  outputs[0] = TensorMeta(DType::kI8, outputs[1].shape);
}

void infer_add_norm_dynamic_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[2] = check_add_norm(call);
  if (call.inputs[3].defined()) require_column_vector(call, 3);
  infer_dynamic_scales(call, outputs.first(2));
}

void infer_add_norm_cast(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[1] = outputs[2] = check_add_norm(call);
  outputs[0] = TensorMeta(DType::kF32, outputs[1].shape);
}

void infer_embedding_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  require_lookup(call, 0, 1);
  require_dtype(call, 2, DType::kF32);
  require_shape(call, 2, Shape{call.inputs[1].shape()[1]});
  require_contiguous(call, 2);
  const DType dtype = float_dtype_attribute(call, 0);
  outputs[0] = outputs[1] = TensorMeta(dtype, Shape{call.inputs[0].shape()[0], call.inputs[1].shape()[1]});
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

void reference_add_norm_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[1].meta());
  add_norm(call, {}, y.tensor(), call.outputs[1]);
  reference_quantize_of(y.tensor(), call.inputs[3], call.inputs[4], call.outputs[0]);
}

void reference_add_norm_dynamic_quantize(const OpCall& call) {
  const ScratchTensor y(call.outputs[2].meta());
  add_norm(call, {}, y.tensor(), call.outputs[2]);
  reference_dynamic_quantize_of(y.tensor(), call.inputs[3], call.outputs[0], call.outputs[1]);
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

void register_fused_norm(Registry& registry) {
  registry.add(OpDef("add_rms_norm(Tensor x, Tensor residual, Tensor weight, *, float epsilon) -> Tensor y, Tensor sum",
                     {}, infer_add_norm, reference_add_norm));
  registry.add(
      OpDef("add_rms_norm_bias(Tensor x, Tensor residual, Tensor weight, Tensor bias, *, float epsilon) -> "
            "Tensor y, Tensor sum",
            {}, infer_add_norm_bias, reference_add_norm_bias));
  registry.add(
      OpDef("add_rms_norm_quantize(Tensor x, Tensor residual, Tensor weight, Tensor scale, Tensor? offset, *, "
            "float epsilon) -> Tensor y, Tensor sum",
            {}, infer_add_norm_quantize, reference_add_norm_quantize));
  registry.add(
      OpDef("add_rms_norm_dynamic_quantize(Tensor x, Tensor residual, Tensor weight, Tensor? smooth_scales, *, "
            "float epsilon) -> Tensor y, Tensor scales, Tensor sum",
            {}, infer_add_norm_dynamic_quantize, reference_add_norm_dynamic_quantize));
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
