#include "ops/norm.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_rms_norm(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_dtype(call, 1, DType::kF32);
  require_shape(call, 1, Shape{x.shape().back()});
  require_contiguous(call, 1);
  outputs[0] = TensorMeta(x.dtype(), x.shape());
}

void reference_rms_norm(const OpCall& call) {
  const RowReader x(call.inputs[0]);
  const RowReader weight(call.inputs[1]);
  RowWriter y(call.outputs[0]);
  const double epsilon = call.float_attribute(0);
  for (int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0;
    for (int64_t i = 0; i < x.columns(); ++i) squares += static_cast<double>(x(row, i)) * x(row, i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.columns()) + epsilon);
    for (int64_t i = 0; i < x.columns(); ++i) y.set(row, i, static_cast<float>(x(row, i) * scale * weight(0, i)));
  }
}

}  // namespace

Tensor rms_norm(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
                std::source_location where) {
  return dispatch_call(context, "rms_norm", {x, weight}, {}, {epsilon}, where);
}

void register_norm(Registry& registry) {
  registry.add(
      OpDef("rms_norm(Tensor x, Tensor weight, *, float epsilon) -> Tensor y", {}, infer_rms_norm, reference_rms_norm));
}

}  // namespace reprise::ops
