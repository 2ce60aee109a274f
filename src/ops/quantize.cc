#include "ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/norm.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

/// [1] or one value for each column of argument `rows`; float32, or of `other`.
void require_scale(const OpCall& call, size_t input, DType other, size_t rows) {
  if (call.inputs[input].shape() != Shape{1}) return require_column_vector_like(call, input, other, rows);
  if (call.inputs[input].dtype() != other) require_dtype(call, input, DType::kF32);
  require_contiguous(call, input);
}

void infer_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_quantize_scales(call, 1, 2, call.inputs[0].dtype());
  outputs[0] = TensorMeta(DType::kI8, call.inputs[0].shape());
}

void infer_dynamic_quantize(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  if (call.inputs[1].defined()) require_column_vector(call, 1);
  infer_dynamic_scales(call, outputs);
}

void reference_quantize(const OpCall& call) {
  reference_quantize_of(call.inputs[0], call.inputs[1], call.inputs[2], call.outputs[0]);
}

void reference_dynamic_quantize(const OpCall& call) {
  reference_dynamic_quantize_of(call.inputs[0], call.inputs[1], call.outputs[0], call.outputs[1]);
}

int8_t to_int8(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<int8_t>(std::nearbyint(std::clamp(value, -128.0f, 127.0f)));
}

float value_for(const Tensor& vector, int64_t column) { return RowReader(vector)(0, vector.size(0) == 1 ? 0 : column); }

}  // namespace

void require_quantize_scales(const OpCall& call, size_t scale, size_t offset, DType row_dtype, size_t rows) {
  require_scale(call, scale, row_dtype, rows);
  if (call.inputs[offset].defined()) require_scale(call, offset, call.inputs[scale].dtype(), rows);
}

void infer_dynamic_scales(const OpCall& call, std::span<TensorMeta> values_and_scales) {
  const Shape& shape = call.inputs[0].shape();
  if (shape.rank() < 2) {
    fail_argument(call, 0, fmt::format("has shape {}, expected at least 2 dimensions", shape.to_string()));
  }
  values_and_scales[0] = TensorMeta(DType::kI8, shape);
  values_and_scales[1] = TensorMeta(DType::kF32, Shape(std::span(shape.begin(), shape.rank() - 1)));
}

void reference_quantize_of(const Tensor& x_tensor, const Tensor& scale, const Tensor& offset, const Tensor& y) {
  const RowReader x(x_tensor);
  auto* to = y.data_as<int8_t>();
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i) {
      const float inverse = 1.0f / value_for(scale, i);
      *to++ = to_int8(std::nearbyint(x(row, i) * inverse) + (offset.defined() ? value_for(offset, i) : 0.0f));
    }
  }
}

void reference_dynamic_quantize_of(const Tensor& x_tensor, const Tensor& smooth_scales, const Tensor& y,
                                   const Tensor& scales) {
  const RowReader x(x_tensor);
  auto* to = y.data_as<int8_t>();
  if (x.columns() == 0) std::fill_n(scales.data_as<float>(), scales.shape().elements(), 0.0f);
  for (int64_t row = 0; row < x.rows(); ++row) {
    const auto smoothed = [&](int64_t i) {
      return smooth_scales.defined() ? x(row, i) * smooth_scales.data_as<float>()[i] : x(row, i);
    };
    float largest = 0;
    for (int64_t i = 0; i < x.columns(); ++i) {
      const float magnitude = std::abs(smoothed(i));
      if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
    }
    const float scale = largest / 127.0f;
    scales.data_as<float>()[row] = scale;
    for (int64_t i = 0; i < x.columns(); ++i) to[i] = scale == 0 ? int8_t{0} : to_int8(smoothed(i) / scale);
    to += x.columns();
  }
}

Tensor quantize(ForwardContext& context, const Tensor& x, const Tensor& scale, const Tensor& offset,
                std::source_location where) {
  return dispatch_call(context, "quantize", {x, scale, offset}, {}, {}, where);
}

Quantized dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& smooth_scales,
                           std::source_location where) {
  auto [values, scales] = dispatch_call_of<2>(context, "dynamic_quantize", {x, smooth_scales}, {}, where);
  return {values, scales};
}

void register_quantize(Registry& registry) {
  registry.add(
      OpDef("quantize(Tensor x, Tensor scale, Tensor? offset) -> Tensor y", {}, infer_quantize, reference_quantize));
  registry.add(OpDef("dynamic_quantize(Tensor x, Tensor? smooth_scales) -> Tensor y, Tensor scales", {},
                     infer_dynamic_quantize, reference_dynamic_quantize));
}

}  // namespace reprise::ops
