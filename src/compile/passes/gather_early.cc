#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"

namespace reprise::compile {
namespace {

/// Only the sequences' last rows are wanted in the end: the last sum is made of them alone, and can take the norm in.
ReplacementRule gather_add() {
  ReplacementRule rule;
  rule.name = "gather_early_add";
  rule.tensors = {{"a", example_rows()}, {"b", example_rows()}, {"rows", example_positions()}};
  rule.pattern = [](PatternContext& p) {
    return std::vector{ops::gather_rows(p.context(), ops::add(p.context(), p["a"], p["b"]), p["rows"])};
  };
  rule.replacement = [](PatternContext& p) {
    const Tensor a = ops::gather_rows(p.context(), p["a"], p["rows"]);
    return std::vector{ops::add(p.context(), a, ops::gather_rows(p.context(), p["b"], p["rows"]))};
  };
  return rule;
}

/// A product gives the same bits for a row whatever other rows there are.
ReplacementRule gather_linear(bool bias) {
  ReplacementRule rule;
  rule.name = bias ? "gather_early_linear_bias" : "gather_early_linear";
  rule.tensors = {{"x", example_rows()}, {"weight", TensorMeta(DType::kF32, {16, 8})}, {"rows", example_positions()}};
  if (bias) rule.tensors.push_back({"bias", example_vector(16)});
  rule.scalars = {{"out", DType::kF32}};
  const auto weights = [bias](const PatternContext& p) {
    ops::LinearWeights result;
    result.weight = p["weight"];
    if (bias) result.bias = p["bias"];
    return result;
  };
  rule.pattern = [weights](PatternContext& p) {
    return std::vector{
        ops::gather_rows(p.context(), ops::linear(p.context(), p["x"], weights(p), p.dtype("out")), p["rows"])};
  };
  rule.replacement = [weights](PatternContext& p) {
    const Tensor x = ops::gather_rows(p.context(), p["x"], p["rows"]);
    return std::vector{ops::linear(p.context(), x, weights(p), p.dtype("out"))};
  };
  return rule;
}

}  // namespace

ReplacementSet gather_early(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(gather_add());
  set.add(gather_linear(false));
  set.add(gather_linear(true));
  return set;
}

}  // namespace reprise::compile
