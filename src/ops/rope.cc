#include "ops/rope.h"

#include <fmt/core.h>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/in_place.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_rope(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  require_float(call, 0);
  require_rank(call, 0, 3);
  require_dense_rows(call, 0);
  require_dtype(call, 1, DType::kI32);
  require_shape(call, 1, Shape{x.shape()[0]});
  require_contiguous(call, 1);
  require_dtype(call, 2, DType::kF32);
  require_rank(call, 2, 2);
  require_contiguous(call, 2);
  const Dim head = x.shape()[2];
  if (head.value() % 2 != 0) {
    fail_argument(call, 0, fmt::format("has shape {}, expected an even last axis", x.shape().to_string()));
  }
  require_shape(call, 2, Shape{call.inputs[2].shape()[0], head});
  outputs[0] = TensorMeta(x.dtype(), x.shape());
}

void reference_rope(const OpCall& call) {
  reference_rope_of(call.inputs[0], call.inputs[1], call.inputs[2], call.outputs[0]);
}

}  // namespace

void reference_rope_of(const Tensor& x_tensor, const Tensor& positions, const Tensor& table_tensor,
                       const Tensor& y_tensor) {
  const RowReader x(x_tensor);
  const RowReader table(table_tensor);
  RowWriter y(y_tensor);
  const int64_t heads = x_tensor.size(1);
  const int64_t half = x_tensor.size(2) / 2;
  for (int64_t row = 0; row < x.rows(); ++row) {
    const int32_t position = positions.data_as<int32_t>()[row / heads];
    const bool inside = position >= 0 && position < table_tensor.size(0);
    for (int64_t i = 0; i < half; ++i) {
      const double cosine = inside ? table(position, i) : 0.0f;
      const double sine = inside ? table(position, half + i) : 0.0f;
      const double a = inside ? x(row, i) : 0.0f;
      const double b = inside ? x(row, half + i) : 0.0f;
      y.set(row, i, static_cast<float>(a * cosine - b * sine));
      y.set(row, half + i, static_cast<float>(b * cosine + a * sine));
    }
  }
}

Tensor rope(ForwardContext& context, const Tensor& x, const Tensor& table, std::source_location where) {
  return dispatch_call(context, "rope", {x, context.positions, table}, {}, {}, where);
}

void rope_(ForwardContext& context, const Tensor& x, const Tensor& table, std::source_location where) {
  dispatch_call_of<0>(context, "rope_", {x, context.positions, table}, {}, where);
}

void register_rope(Registry& registry) {
  registry.add(OpDef("rope(Tensor x, Tensor positions, Tensor table) -> Tensor y", {}, infer_rope, reference_rope));
  registry.add(OpDef("rope_(Tensor! x, Tensor positions, Tensor table) -> ()", {}, infer_in_place<infer_rope>,
                     in_place<reference_rope>));
}

}  // namespace reprise::ops
