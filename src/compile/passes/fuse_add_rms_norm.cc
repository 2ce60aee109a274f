#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"
#include "ops/fused_norm.h"
#include "ops/norm.h"

namespace reprise::compile {
namespace {

ReplacementRule add_norm(bool bias) {
  ReplacementRule rule;
  rule.name = bias ? "add_rms_norm_bias" : "add_rms_norm";
  rule.tensors = {{"x", example_rows()}, {"residual", example_rows()}, {"weight", example_vector()}};
  if (bias) rule.tensors.push_back({"bias", example_vector()});
  rule.scalars = {any_epsilon()};
  rule.pattern = [bias](PatternContext& p) {
    const Tensor sum = ops::add(p.context(), p["x"], p["residual"]);
    const double epsilon = p.number("epsilon");
    return std::vector{bias ? ops::rms_norm_bias(p.context(), sum, p["weight"], p["bias"], epsilon)
                            : ops::rms_norm(p.context(), sum, p["weight"], epsilon),
                       sum};
  };
  rule.replacement = [bias](PatternContext& p) {
    const double epsilon = p.number("epsilon");
    const auto [y, sum] =
        bias ? ops::add_rms_norm_bias(p.context(), p["x"], p["residual"], p["weight"], p["bias"], epsilon)
             : ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], epsilon);
    return std::vector{y, sum};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_add_rms_norm(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(add_norm(false));
  set.add(add_norm(true));
  return set;
}

}  // namespace reprise::compile
