#include <fmt/core.h>

#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/fused_norm.h"
#include "ops/quantize.h"

namespace reprise::compile {
namespace {

ReplacementRule norm_quantize(bool bias, bool with_offset) {
  ReplacementRule rule;
  rule.name = fmt::format("add_rms_norm{}_quantize{}", bias ? "_bias" : "", with_offset ? "_offset" : "");
  rule.tensors = {
      {"x", example_rows()}, {"residual", example_rows()}, {"weight", example_vector()}, {"scale", example_vector()}};
  if (bias) rule.tensors.push_back({"bias", example_vector()});
  if (with_offset) rule.tensors.push_back({"offset", example_vector()});
  rule.scalars = {any_epsilon()};
  const auto offset = [with_offset](const PatternContext& p) { return with_offset ? p["offset"] : Tensor(); };
  rule.pattern = [bias, offset](PatternContext& p) {
    const double epsilon = p.number("epsilon");
    const auto [y, sum] =
        bias ? ops::add_rms_norm_bias(p.context(), p["x"], p["residual"], p["weight"], p["bias"], epsilon)
             : ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], epsilon);
    return std::vector{ops::quantize(p.context(), y, p["scale"], offset(p)), sum};
  };
  rule.replacement = [bias, offset](PatternContext& p) {
    const double epsilon = p.number("epsilon");
    const auto [y, sum] = bias ? ops::add_rms_norm_bias_quantize(p.context(), p["x"], p["residual"], p["weight"],
                                                                 p["bias"], p["scale"], offset(p), epsilon)
                               : ops::add_rms_norm_quantize(p.context(), p["x"], p["residual"], p["weight"], p["scale"],
                                                            offset(p), epsilon);
    return std::vector{y, sum};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_add_rms_norm_quantize(const ops::Registry& registry) {
  ReplacementSet set(registry);
  for (const bool bias : {false, true}) {
    for (const bool with_offset : {false, true}) set.add(norm_quantize(bias, with_offset));
  }
  return set;
}

}  // namespace reprise::compile
