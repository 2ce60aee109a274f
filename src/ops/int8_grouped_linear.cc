#include "ops/int8_grouped_linear.h"

#include <fmt/core.h>
#include <algorithm>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/int8_linear.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

constexpr size_t kGroupedX = 0, kGroupedWeight = 1, kGroupedOffsets = 2, kGroupedScale = 3, kGroupedRowScales = 4;

void require_vector(const OpCall& call, size_t input, DType dtype, const Shape& shape) {
  require_dtype(call, input, dtype);
  require_shape(call, input, shape);
  require_contiguous(call, input);
}

void infer_int8_grouped_linear(const OpCall& call, std::span<TensorMeta> outputs) {
  const Shape& x = call.inputs[kGroupedX].shape();
  const Tensor& weight = call.inputs[kGroupedWeight];
  require_dtype(call, kGroupedX, DType::kI8);
  require_rank(call, kGroupedX, 2);
  require_dense_rows(call, kGroupedX);
  require_dtype(call, kGroupedWeight, DType::kI8);
  require_rank(call, kGroupedWeight, 3);
  if (weight.shape()[2] != x[1]) {
    fail_argument(call, kGroupedWeight,
                  fmt::format("has shape {}, expected {} columns as argument 'x' of shape {}",
                              weight.shape().to_string(), x[1].to_string(), x.to_string()));
  }
  if (weight.size(2) > kMaxInt8Inputs) {
    fail_argument(call, kGroupedWeight,
                  fmt::format("has {} columns, expected at most {}", weight.size(2), kMaxInt8Inputs));
  }
  require_vector(call, kGroupedOffsets, DType::kI32, Shape{weight.shape()[0] + 1});
  require_vector(call, kGroupedScale, DType::kF32, Shape{weight.shape()[0], weight.shape()[1]});
  require_vector(call, kGroupedRowScales, DType::kF32, Shape{x[0]});
  outputs[0] = TensorMeta(float_dtype_attribute(call, 0), Shape{x[0], weight.shape()[1]});
}

void reference_int8_grouped_linear(const OpCall& call) {
  require_plain(call, kGroupedWeight);
  const RowReader x(call.inputs[kGroupedX]);
  const Tensor& weight = call.inputs[kGroupedWeight];
  const RowReader weights(weight);
  const auto* offsets = call.inputs[kGroupedOffsets].data_as<int32_t>();
  RowWriter y(call.outputs[0]);
  const int64_t experts = weight.size(0);
  const int64_t channels = weight.size(1);
  for (int64_t row = 0; row < call.inputs[kGroupedX].size(0); ++row) {
    // The expert whose group the row is in, or the number of experts.
    const int64_t expert = std::upper_bound(offsets + 1, offsets + experts + 1, row) - (offsets + 1);
    for (int64_t n = 0; n < channels; ++n) {
      if (expert == experts) {
        y.set(row, n, 0);
        continue;
      }
      const int64_t channel = expert * channels + n;
      int32_t sum = 0;
      for (int64_t k = 0; k < weight.size(2); ++k) {
        sum += call.inputs[kGroupedX].data_as<int8_t>()[x.element(row, k)] *
               weight.data_as<int8_t>()[weights.element(channel, k)];
      }
      const float value = static_cast<float>(sum) * call.inputs[kGroupedScale].data_as<float>()[channel];
      y.set(row, n, value * call.inputs[kGroupedRowScales].data_as<float>()[row]);
    }
  }
}

}  // namespace

Tensor int8_grouped_linear(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& offsets,
                           const Tensor& scale, const Tensor& row_scales, DType out, std::source_location where) {
  return dispatch_call(context, "int8_grouped_linear", {x, weight, offsets, scale, row_scales}, {}, {out}, where);
}

void register_int8_grouped_linear(Registry& registry) {
  registry.add(OpDef(
      "int8_grouped_linear(Tensor x, Tensor weight, Tensor offsets, Tensor scale, Tensor row_scales, *, dtype out) -> "
      "Tensor y",
      {.rowwise = false}, infer_int8_grouped_linear, reference_int8_grouped_linear));
}

}  // namespace reprise::ops
