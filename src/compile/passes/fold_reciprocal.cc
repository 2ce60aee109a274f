#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"

namespace reprise::compile {

ReplacementSet fold_reciprocal(const ops::Registry& registry) {
  ReplacementRule rule;
  rule.name = "fold_reciprocal";
  rule.tensors = {{"x", example_rows()}};
  rule.pattern = [](PatternContext& p) {
    return std::vector{ops::reciprocal(p.context(), ops::reciprocal(p.context(), p["x"]))};
  };
  rule.replacement = [](PatternContext& p) { return std::vector{p["x"]}; };
  rule.inexact = true;  // 1 / (1 / 49) is not 49
  ReplacementSet set(registry);
  set.add(std::move(rule));
  return set;
}

}  // namespace reprise::compile
