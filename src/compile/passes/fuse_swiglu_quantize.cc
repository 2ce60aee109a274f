#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/quantize.h"
#include "ops/swiglu.h"

namespace reprise::compile {
namespace {

ReplacementRule static_rule(bool with_offset) {
  ReplacementRule rule;
  rule.name = with_offset ? "swiglu_quantize_offset" : "swiglu_quantize";
  rule.tensors = {{"gate", example_rows()}, {"up", example_rows()}, {"scale", example_vector()}};
  if (with_offset) rule.tensors.push_back({"offset", example_vector()});
  const auto offset = [with_offset](const PatternContext& p) { return with_offset ? p["offset"] : Tensor(); };
  rule.pattern = [offset](PatternContext& p) {
    return std::vector{ops::quantize(p.context(), ops::swiglu(p.context(), p["gate"], p["up"]), p["scale"], offset(p))};
  };
  rule.replacement = [offset](PatternContext& p) {
    return std::vector{ops::swiglu_quantize(p.context(), p["gate"], p["up"], p["scale"], offset(p))};
  };
  return rule;
}

ReplacementRule dynamic_rule(bool smooth) {
  ReplacementRule rule;
  rule.name = smooth ? "swiglu_dynamic_quantize_smooth" : "swiglu_dynamic_quantize";
  rule.tensors = {{"gate", example_rows()}, {"up", example_rows()}};
  if (smooth) rule.tensors.push_back({"smooth", example_vector()});
  const auto smooth_scales = [smooth](const PatternContext& p) { return smooth ? p["smooth"] : Tensor(); };
  rule.pattern = [smooth_scales](PatternContext& p) {
    const Tensor y = ops::swiglu(p.context(), p["gate"], p["up"]);
    const ops::Quantized quantized = ops::dynamic_quantize(p.context(), y, smooth_scales(p));
    return std::vector{quantized.values, quantized.scales};
  };
  rule.replacement = [smooth_scales](PatternContext& p) {
    const ops::Quantized quantized = ops::swiglu_dynamic_quantize(p.context(), p["gate"], p["up"], smooth_scales(p));
    return std::vector{quantized.values, quantized.scales};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_swiglu_quantize(const ops::Registry& registry) {
  ReplacementSet set(registry);
  for (const bool with_offset : {false, true}) set.add(static_rule(with_offset));
  for (const bool smooth : {false, true}) set.add(dynamic_rule(smooth));
  return set;
}

}  // namespace reprise::compile
