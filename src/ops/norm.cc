#include "ops/norm.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/in_place.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_rms_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_column_vector_like(call, 1, call.inputs[0].dtype());
  outputs[0] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_rms_norm_bias(const OpCall& call, std::span<TensorMeta> outputs) {
  infer_rms_norm(call, outputs);
  require_column_vector(call, 2);
}

void reference_rms_norm(const OpCall& call) {
  reference_norm_of(call.inputs[0], call.inputs[1], {}, call.float_attribute(0), call.outputs[0]);
}

void reference_rms_norm_bias(const OpCall& call) {
  reference_norm_of(call.inputs[0], call.inputs[1], call.inputs[2], call.float_attribute(0), call.outputs[0]);
}

}  // namespace

void require_column_vector(const OpCall& call, size_t input, size_t rows) {
  require_column_vector_like(call, input, DType::kF32, rows);
}

void require_column_vector_like(const OpCall& call, size_t input, DType row_dtype, size_t rows) {
  if (call.inputs[input].dtype() != row_dtype) require_dtype(call, input, DType::kF32);
  require_shape(call, input, Shape{call.inputs[rows].shape().back()});
  require_contiguous(call, input);
}

void reference_norm_of(const Tensor& x_tensor, const Tensor& weight, const Tensor& bias, double epsilon,
                       const Tensor& y_tensor) {
  const RowReader x(x_tensor);
  const RowReader factor(weight);
  RowWriter y(y_tensor);
  for (int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0;
    for (int64_t i = 0; i < x.columns(); ++i) squares += static_cast<double>(x(row, i)) * x(row, i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.columns()) + epsilon);
    for (int64_t i = 0; i < x.columns(); ++i) {
      const double normed = x(row, i) * scale * factor(0, i);
      y.set(row, i, static_cast<float>(normed + (bias.defined() ? bias.data_as<float>()[i] : 0.0f)));
    }
  }
}

Tensor rms_norm(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
                std::source_location where) {
  return dispatch_call(context, "rms_norm", {x, weight}, {}, {epsilon}, where);
}

Tensor rms_norm_bias(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                     std::source_location where) {
  return dispatch_call(context, "rms_norm_bias", {x, weight, bias}, {}, {epsilon}, where);
}

void rms_norm_(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
               std::source_location where) {
  dispatch_call_of<0>(context, "rms_norm_", {x, weight}, {epsilon}, where);
}

void register_norm(Registry& registry) {
  registry.add(
      OpDef("rms_norm(Tensor x, Tensor weight, *, float epsilon) -> Tensor y", {}, infer_rms_norm, reference_rms_norm));
  registry.add(OpDef("rms_norm_(Tensor! x, Tensor weight, *, float epsilon) -> ()", {}, infer_in_place<infer_rms_norm>,
                     in_place<reference_rms_norm>));
  registry.add(OpDef("rms_norm_bias(Tensor x, Tensor weight, Tensor bias, *, float epsilon) -> Tensor y", {},
                     infer_rms_norm_bias, reference_rms_norm_bias));
}

}  // namespace reprise::ops
