#include <fmt/core.h>

#include "base/error.h"
#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/fused_norm.h"
#include "ops/quantize.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

ReplacementRule norm_quantize(bool bias, bool smooth, bool flatten) {
  ReplacementRule rule;
  rule.name = fmt::format("add_rms_norm{}_dynamic_quantize{}{}", bias ? "_bias" : "", smooth ? "_smooth" : "",
                          flatten ? "_flatten" : "");
  const TensorMeta x = flatten ? TensorMeta(DType::kF32, {Dim::symbolic(Symbol::kTokens), 3, 8}) : example_rows();
  rule.tensors = {{"x", x}, {"residual", x}, {"weight", example_vector()}};
  if (bias) rule.tensors.push_back({"bias", example_vector()});
  if (smooth) rule.tensors.push_back({"smooth", example_vector()});
  rule.scalars = {any_epsilon()};
  const auto smooth_scales = [smooth](const PatternContext& p) { return smooth ? p["smooth"] : Tensor(); };
  rule.pattern = [bias, smooth_scales, flatten](PatternContext& p) {
    const double epsilon = p.number("epsilon");
    auto [y, sum] = bias ? ops::add_rms_norm_bias(p.context(), p["x"], p["residual"], p["weight"], p["bias"], epsilon)
                         : ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], epsilon);
    if (flatten) {
      const Shape& shape = y.shape();
      if (shape.rank() != 3) throw Error(ErrorCode::kInvalidArgument, "flattened are three axes");
      y = ops::reshape(p.context(), y, {shape[0] * shape.size(1), shape[2]});
    }
    const ops::Quantized quantized = ops::dynamic_quantize(p.context(), y, smooth_scales(p));
    return std::vector{quantized.values, quantized.scales, sum};
  };
  rule.replacement = [bias, smooth_scales, flatten](PatternContext& p) {
    const double epsilon = p.number("epsilon");
    auto [y, sum] = bias ? ops::add_rms_norm_bias_dynamic_quantize(p.context(), p["x"], p["residual"], p["weight"],
                                                                   p["bias"], smooth_scales(p), epsilon)
                         : ops::add_rms_norm_dynamic_quantize(p.context(), p["x"], p["residual"], p["weight"],
                                                              smooth_scales(p), epsilon);
    if (flatten) {
      const Shape& shape = sum.shape();
      const Dim rows = shape[0] * shape.size(1);
      y.values = ops::reshape(p.context(), y.values, {rows, shape[2]});
      y.scales = ops::reshape(p.context(), y.scales, {rows});
    }
    return std::vector{y.values, y.scales, sum};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_add_rms_norm_dynamic_quantize(const ops::Registry& registry) {
  ReplacementSet set(registry);
  for (const bool bias : {false, true}) {
    for (const bool smooth : {false, true}) {
      for (const bool flatten : {false, true}) set.add(norm_quantize(bias, smooth, flatten));
    }
  }
  return set;
}

}  // namespace reprise::compile
