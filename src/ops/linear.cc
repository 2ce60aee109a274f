#include "ops/linear.h"

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/int8_linear.h"
#include "ops/quantize.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_linear(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  require_float(call, 0);
  require_dense_rows(call, 0);
  require_float(call, 1);
  require_rank(call, 1, 2);
  if (weight.shape()[1] != x.shape().back()) {
    fail_argument(call, 1,
                  fmt::format("has shape {}, expected {} columns as argument 'x' of shape {}",
                              weight.shape().to_string(), x.shape().back().to_string(), x.shape().to_string()));
  }
  if (call.inputs[2].defined()) {
    require_dtype(call, 2, DType::kF32);
    require_shape(call, 2, Shape{weight.shape()[0]});
    require_contiguous(call, 2);
  }
  const DType out = call.dtype_attribute(0);
  if (out != DType::kF32 && out != DType::kBF16) {
    throw Error(ErrorCode::kInvalidArgument, "linear: attribute 'out' is {}, expected float32 or bfloat16",
                name_of(out));
  }
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.shape()[0];
  outputs[0] = TensorMeta(out, shape);
}

void reference_linear(const OpCall& call) {
  require_plain(call, 1);
  const RowReader x(call.inputs[0]);
  const RowReader weight(call.inputs[1]);
  const Tensor& bias = call.inputs[2];
  RowWriter y(call.outputs[0]);
  const int64_t inner = x.columns();
  const int64_t rows = call.outputs[0].size(call.outputs[0].rank() - 1) == 0 ? 0 : RowReader(call.outputs[0]).rows();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < call.inputs[1].size(0); ++n) {
      double sum = bias.defined() ? bias.data_as<float>()[n] : 0.0;
      for (int64_t k = 0; k < inner; ++k) sum += static_cast<double>(x(row, k)) * weight(n, k);
      y.set(row, n, static_cast<float>(sum));
    }
  }
}

void infer_pack(const OpCall& call, std::span<TensorMeta> outputs) {
  if (call.inputs[0].dtype() != DType::kI8) require_float(call, 0);
  require_rank(call, 0, 2);
  require_dense_rows(call, 0);
  const auto& format = std::get<std::string>(call.attributes[0]);
  outputs[0] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape(), format.empty() ? Format() : Format(format));
}

/// Plain memory is a format too, and the only one that is known without a device.
void reference_pack(const OpCall& call) {
  if (!call.outputs[0].format().is_plain()) {
    throw Error(ErrorCode::kUnsupported, "pack_linear_weight: the reference does not know the format '{}'",
                call.outputs[0].format().name());
  }
  const RowReader x(call.inputs[0]);
  if (call.inputs[0].dtype() == DType::kI8) {
    auto* to = call.outputs[0].data_as<int8_t>();
    for (int64_t row = 0; row < x.rows(); ++row) {
      for (int64_t i = 0; i < x.columns(); ++i) *to++ = call.inputs[0].data_as<int8_t>()[x.element(row, i)];
    }
    return;
  }
  RowWriter y(call.outputs[0]);
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i) y.set(row, i, x(row, i));
  }
}

}  // namespace

Tensor linear(ForwardContext& context, const Tensor& x, const LinearWeights& weights, std::optional<DType> out_dtype,
              std::source_location where) {
  const DType out = out_dtype.value_or(x.dtype());
  if (weights.weight.dtype() != DType::kI8) {
    return dispatch_call(context, "linear", {x, weights.weight, weights.bias}, {}, {out}, where);
  }
  Int8LinearTerms terms{
      .scale = weights.scale, .row_scales = {}, .quant_bias = weights.quant_bias, .bias = weights.bias};
  if (weights.input_scale.defined()) {
    const Tensor quantized = quantize(context, x, weights.input_scale, weights.input_offset, where);
    return int8_linear(context, quantized, weights.weight, terms, out, where);
  }
  const Quantized quantized = dynamic_quantize(context, x, {}, where);
  terms.row_scales = quantized.scales;
  return int8_linear(context, quantized.values, weights.weight, terms, out, where);
}

Tensor pack_linear_weight(ForwardContext& context, const Tensor& weight, std::string_view format,
                          std::source_location where) {
  return dispatch_call(context, "pack_linear_weight", {weight}, {}, {std::string(format)}, where);
}

void register_linear(Registry& registry) {
  registry.add(OpDef("linear(Tensor x, Tensor weight, Tensor? bias, *, dtype out) -> Tensor y", {}, infer_linear,
                     reference_linear));
  // Rows of a packed weight may share a tile, so it is not a function of one row.
  registry.add(OpDef("pack_linear_weight(Tensor weight, *, str format) -> Tensor packed",
                     {.rowwise = false, .rounding = Rounding::kNone}, infer_pack, reference_pack));
}

}  // namespace reprise::ops
