#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/fused_norm.h"
#include "ops/quantize.h"

namespace reprise::compile {
namespace {

ReplacementRule norm_quantize(bool with_offset) {
  ReplacementRule rule;
  rule.name = with_offset ? "add_rms_norm_quantize_offset" : "add_rms_norm_quantize";
  rule.tensors = {
      {"x", example_rows()}, {"residual", example_rows()}, {"weight", example_vector()}, {"scale", example_vector()}};
  if (with_offset) rule.tensors.push_back({"offset", example_vector()});
  rule.scalars = {any_epsilon()};
  const auto offset = [with_offset](const PatternContext& p) { return with_offset ? p["offset"] : Tensor(); };
  rule.pattern = [offset](PatternContext& p) {
    const auto [y, sum] = ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], p.number("epsilon"));
    return std::vector{ops::quantize(p.context(), y, p["scale"], offset(p)), sum};
  };
  rule.replacement = [offset](PatternContext& p) {
    const auto [y, sum] = ops::add_rms_norm_quantize(p.context(), p["x"], p["residual"], p["weight"], p["scale"],
                                                     offset(p), p.number("epsilon"));
    return std::vector{y, sum};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_add_rms_norm_quantize(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(norm_quantize(false));
  set.add(norm_quantize(true));
  return set;
}

}  // namespace reprise::compile
