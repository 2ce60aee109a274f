#include "ops/int8_linear.h"

#include <fmt/core.h>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

constexpr size_t kX = 0, kWeight = 1, kScale = 2, kRowScales = 3, kQuantBias = 4, kBias = 5;

void require_channel_vector(const OpCall& call, size_t input, DType dtype, Dim channels) {
  if (!call.inputs[input].defined()) return;
  require_dtype(call, input, dtype);
  require_shape(call, input, Shape{channels});
  require_contiguous(call, input);
}

void infer_int8_linear(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[kX];
  const Tensor& weight = call.inputs[kWeight];
  require_dtype(call, kX, DType::kI8);
  require_dense_rows(call, kX);
  require_dtype(call, kWeight, DType::kI8);
  require_rank(call, kWeight, 2);
  if (weight.shape()[1] != x.shape().back()) {
    fail_argument(call, kWeight,
                  fmt::format("has shape {}, expected {} columns as argument 'x' of shape {}",
                              weight.shape().to_string(), x.shape().back().to_string(), x.shape().to_string()));
  }
  if (weight.size(1) > kMaxInt8Inputs) {
    fail_argument(call, kWeight, fmt::format("has {} columns, expected at most {}", weight.size(1), kMaxInt8Inputs));
  }
  const Dim channels = weight.shape()[0];
  require_channel_vector(call, kScale, DType::kF32, channels);
  require_channel_vector(call, kQuantBias, DType::kI32, channels);
  require_channel_vector(call, kBias, DType::kF32, channels);
  if (call.inputs[kRowScales].defined()) {
    require_dtype(call, kRowScales, DType::kF32);
    require_shape(call, kRowScales, Shape(std::span(x.shape().begin(), x.rank() - 1)));
    require_contiguous(call, kRowScales);
  }
  Shape shape = x.shape();
  shape[shape.rank() - 1] = channels;
  outputs[0] = TensorMeta(float_dtype_attribute(call, 0), shape);
}

void reference_int8_linear(const OpCall& call) {
  require_plain(call, kWeight);
  const Tensor& weight_tensor = call.inputs[kWeight];
  const RowReader x(call.inputs[kX]);
  const RowReader weight(weight_tensor);
  RowWriter y(call.outputs[0]);
  const auto value_of = [&](size_t input, int64_t n) { return call.inputs[input].data_as<float>()[n]; };
  const int64_t channels = weight_tensor.size(0);
  const int64_t rows = channels == 0 ? 0 : call.outputs[0].shape().elements() / channels;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < channels; ++n) {
      // Unsigned: quant_bias may take the sum around.
      uint32_t sum =
          call.inputs[kQuantBias].defined() ? static_cast<uint32_t>(call.inputs[kQuantBias].data_as<int32_t>()[n]) : 0;
      for (int64_t k = 0; k < x.columns(); ++k) {
        const int32_t product = call.inputs[kX].data_as<int8_t>()[x.element(row, k)] *
                                weight_tensor.data_as<int8_t>()[weight.element(n, k)];
        sum += static_cast<uint32_t>(product);
      }
      float value = static_cast<float>(static_cast<int32_t>(sum)) * value_of(kScale, n);
      if (call.inputs[kRowScales].defined()) value *= value_of(kRowScales, row);
      if (call.inputs[kBias].defined()) value += value_of(kBias, n);
      y.set(row, n, value);
    }
  }
}

}  // namespace

Tensor int8_linear(ForwardContext& context, const Tensor& x, const Tensor& weight, const Int8LinearTerms& terms,
                   DType out, std::source_location where) {
  return dispatch_call(context, "int8_linear", {x, weight, terms.scale, terms.row_scales, terms.quant_bias, terms.bias},
                       {}, {out}, where);
}

void register_int8_linear(Registry& registry) {
  registry.add(
      OpDef("int8_linear(Tensor x, Tensor weight, Tensor scale, Tensor? row_scales, Tensor? quant_bias, Tensor? bias, "
            "*, dtype out) -> Tensor y",
            {}, infer_int8_linear, reference_int8_linear));
}

}  // namespace reprise::ops
