#include "ops/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/int8_grouped_linear.h"
#include "ops/quantize.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

int64_t positive_attribute(const OpCall& call, size_t attribute) {
  const int64_t value = call.int_attribute(attribute);
  if (value < 1) {
    throw Error(ErrorCode::kInvalidArgument, "{}: attribute '{}' is {}, expected at least 1", call.op.name(),
                call.op.schema().attributes[attribute].name, value);
  }
  return value;
}

/// A contiguous int32 matrix, as choices and places are.
void require_index_matrix(const OpCall& call, size_t input) {
  require_dtype(call, input, DType::kI32);
  require_rank(call, input, 2);
  require_contiguous(call, input);
}

void infer_gating(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& logits = call.inputs[0];
  require_float(call, 0);
  require_rank(call, 0, 2);
  require_dense_rows(call, 0);
  if (call.inputs[1].defined()) {
    require_dtype(call, 1, DType::kI32);
    require_shape(call, 1, Shape{1});
  }
  const int64_t top_k = positive_attribute(call, 0);
  if (top_k > logits.size(1)) {
    throw Error(ErrorCode::kInvalidArgument, "{}: attribute 'top_k' is {}, expected at most the {} experts",
                call.op.name(), top_k, logits.size(1));
  }
  const Shape shape{logits.shape()[0], top_k};
  outputs[0] = TensorMeta(DType::kF32, shape);
  outputs[1] = TensorMeta(DType::kI32, shape);
}

void reference_gating(const OpCall& call) {
  const RowReader logits(call.inputs[0]);
  const int64_t tokens = call.inputs[0].size(0);
  const int64_t real = call.inputs[1].defined() ? *call.inputs[1].data_as<int32_t>() : tokens;
  const int64_t top_k = call.int_attribute(0);
  std::vector<int32_t> order(static_cast<size_t>(logits.columns()));
  for (int64_t row = 0; row < tokens; ++row) {
    float* weights = call.outputs[0].data_as<float>() + row * top_k;
    int32_t* experts = call.outputs[1].data_as<int32_t>() + row * top_k;
    if (row >= real) {
      std::fill_n(weights, top_k, 0.0f);
      std::fill_n(experts, top_k, -1);
      continue;
    }
    const auto key = [&](int32_t i) { return std::isnan(logits(row, i)) ? -INFINITY : logits(row, i); };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
    double total = 0;
    for (const int32_t i : order) total += std::exp(static_cast<double>(logits(row, i)) - key(order[0]));
    float chosen = 0;
    for (int64_t j = 0; j < top_k; ++j) {
      experts[j] = order[static_cast<size_t>(j)];
      weights[j] = static_cast<float>(std::exp(static_cast<double>(key(experts[j])) - key(order[0])) / total);
      chosen += weights[j];
    }
    for (int64_t j = 0; j < top_k && call.bool_attribute(1); ++j) weights[j] /= chosen;
  }
}

void infer_route(const OpCall& call, std::span<TensorMeta> outputs) {
  require_index_matrix(call, 0);
  const int64_t experts = positive_attribute(call, 0);
  if (experts >= std::numeric_limits<int32_t>::max()) {
    throw Error(ErrorCode::kInvalidArgument, "{}: attribute 'expert_count' is {}, too many", call.op.name(), experts);
  }
  const Shape& shape = call.inputs[0].shape();
  outputs[0] = TensorMeta(DType::kI32, Shape{experts + 1});
  outputs[1] = TensorMeta(DType::kI32, Shape{shape[0] * shape[1].value()});
  outputs[2] = TensorMeta(DType::kI32, shape);
}

void reference_route(const OpCall& call) {
  const auto* experts = call.inputs[0].data_as<int32_t>();
  const int64_t rows = call.inputs[0].shape().elements();
  const int64_t top_k = call.inputs[0].size(1);
  auto* offsets = call.outputs[0].data_as<int32_t>();
  auto* tokens = call.outputs[1].data_as<int32_t>();
  auto* places = call.outputs[2].data_as<int32_t>();
  std::fill_n(tokens, rows, -1);
  std::fill_n(places, rows, -1);
  int32_t place = 0;
  for (int64_t expert = 0; expert < call.int_attribute(0); ++expert) {
    offsets[expert] = place;
    for (int64_t i = 0; i < rows; ++i) {
      if (experts[i] != expert) continue;
      tokens[place] = static_cast<int32_t>(i / top_k);
      places[i] = place++;
    }
  }
  offsets[call.int_attribute(0)] = place;
}

void infer_grouped_linear(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  require_float(call, 0);
  require_rank(call, 0, 2);
  require_dense_rows(call, 0);
  require_float(call, 1);
  require_rank(call, 1, 3);
  if (weight.shape()[2] != x.shape()[1]) {
    fail_argument(call, 1,
                  fmt::format("has shape {}, expected {} columns as argument 'x' of shape {}",
                              weight.shape().to_string(), x.shape()[1].to_string(), x.shape().to_string()));
  }
  require_dtype(call, 2, DType::kI32);
  require_shape(call, 2, Shape{weight.shape()[0] + 1});
  require_contiguous(call, 2);
  outputs[0] = TensorMeta(float_dtype_attribute(call, 0), Shape{x.shape()[0], weight.shape()[1]});
}

void reference_grouped_linear(const OpCall& call) {
  require_plain(call, 1);
  const RowReader x(call.inputs[0]);
  const RowReader weight(call.inputs[1]);
  const auto* offsets = call.inputs[2].data_as<int32_t>();
  RowWriter y(call.outputs[0]);
  const int64_t experts = call.inputs[1].size(0);
  const int64_t outputs = call.inputs[1].size(1);
  const int64_t inner = call.inputs[1].size(2);
  for (int64_t row = 0; row < call.inputs[0].size(0); ++row) {
    // The expert whose group the row is in, or the number of experts.
    const int64_t expert = std::upper_bound(offsets + 1, offsets + experts + 1, row) - (offsets + 1);
    for (int64_t n = 0; n < outputs; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < inner && expert < experts; ++k) {
        sum += static_cast<double>(x(row, k)) * weight(expert * outputs + n, k);
      }
      y.set(row, n, static_cast<float>(sum));
    }
  }
}

void infer_combine(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_rank(call, 0, 2);
  require_dense_rows(call, 0);
  require_index_matrix(call, 2);
  require_dtype(call, 1, DType::kF32);
  require_shape(call, 1, call.inputs[2].shape());
  require_contiguous(call, 1);
  outputs[0] = TensorMeta(call.inputs[0].dtype(), Shape{call.inputs[2].shape()[0], call.inputs[0].shape()[1]});
}

void reference_combine(const OpCall& call) {
  const RowReader y(call.inputs[0]);
  RowWriter out(call.outputs[0]);
  const int64_t top_k = call.inputs[2].size(1);
  for (int64_t token = 0; token < call.inputs[2].size(0); ++token) {
    const int32_t* places = call.inputs[2].data_as<int32_t>() + token * top_k;
    const float* weights = call.inputs[1].data_as<float>() + token * top_k;
    for (int64_t i = 0; i < call.inputs[0].size(1); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < top_k; ++j) {
        if (places[j] >= 0) sum += static_cast<double>(weights[j]) * y(places[j], i);
      }
      out.set(token, i, static_cast<float>(sum));
    }
  }
}

void infer_count_rows(const OpCall& call, std::span<TensorMeta> /*outputs*/) {
  require_dtype(call, 0, DType::kI32);
  require_rank(call, 0, 1);
  require_contiguous(call, 0);
  require_dtype(call, 1, DType::kI64);
  require_shape(call, 1, Shape{call.inputs[0].shape()[0] - 1});
  require_contiguous(call, 1);
}

void reference_count_rows(const OpCall& call) {
  const auto* offsets = call.inputs[0].data_as<int32_t>();
  for (int64_t e = 0; e < call.inputs[1].size(0); ++e) {
    call.inputs[1].data_as<int64_t>()[e] += offsets[e + 1] - offsets[e];
  }
}

}  // namespace

ExpertChoice moe_gating_top_k(ForwardContext& context, const Tensor& logits, int64_t top_k, bool renormalize,
                              std::source_location where) {
  auto [weights, experts] =
      dispatch_call_of<2>(context, "moe_gating_top_k", {logits, context.token_count}, {top_k, renormalize}, where);
  return {weights, experts};
}

ExpertRoutes moe_route(ForwardContext& context, const Tensor& experts, int64_t expert_count,
                       std::source_location where) {
  auto [offsets, tokens, places] = dispatch_call_of<3>(context, "moe_route", {experts}, {expert_count}, where);
  return {offsets, tokens, places};
}

Tensor grouped_linear(ForwardContext& context, const Tensor& x, const LinearWeights& weights, const Tensor& offsets,
                      std::optional<DType> out_dtype, std::source_location where) {
  if (weights.bias.defined()) throw Error(ErrorCode::kUnsupported, "grouped_linear: experts with a bias");
  const DType out = out_dtype.value_or(x.dtype());
  if (weights.weight.dtype() != DType::kI8) {
    return dispatch_call(context, "grouped_linear", {x, weights.weight, offsets}, {}, {out}, where);
  }
  if (weights.input_scale.defined() || weights.quant_bias.defined()) {
    throw Error(ErrorCode::kUnsupported, "grouped_linear: experts whose inputs are quantised with one scale");
  }
  const Quantized quantized = dynamic_quantize(context, x, {}, where);
  return int8_grouped_linear(context, quantized.values, weights.weight, offsets, weights.scale, quantized.scales, out,
                             where);
}

Tensor moe_combine(ForwardContext& context, const Tensor& y, const Tensor& weights, const Tensor& places,
                   std::source_location where) {
  return dispatch_call(context, "moe_combine", {y, weights, places}, {}, {}, where);
}

void moe_count_rows(ForwardContext& context, const Tensor& offsets, const Tensor& counts, std::source_location where) {
  const Tensor inputs[] = {offsets, counts};
  context.dispatcher.dispatch("moe_count_rows", inputs, {}, {}, {}, where);
}

void register_moe(Registry& registry) {
  // What a row is depends on its number, or on all rows before it.
  registry.add(
      OpDef("moe_gating_top_k(Tensor logits, Tensor? token_count, *, int top_k, bool renormalize) -> Tensor weights, "
            "Tensor experts",
            {.rowwise = false}, infer_gating, reference_gating));
  registry.add(OpDef("moe_route(Tensor experts, *, int expert_count) -> Tensor offsets, Tensor tokens, Tensor places",
                     {.rowwise = false, .rounding = Rounding::kNone}, infer_route, reference_route));
  registry.add(OpDef("grouped_linear(Tensor x, Tensor weight, Tensor offsets, *, dtype out) -> Tensor y",
                     {.rowwise = false}, infer_grouped_linear, reference_grouped_linear));
  registry.add(OpDef("moe_combine(Tensor y, Tensor weights, Tensor places) -> Tensor out", {.rowwise = false},
                     infer_combine, reference_combine));
  registry.add(OpDef("moe_count_rows(Tensor offsets, Tensor! counts) -> ()",
                     {.rowwise = false, .rounding = Rounding::kNone}, infer_count_rows, reference_count_rows));
}

}  // namespace reprise::ops
