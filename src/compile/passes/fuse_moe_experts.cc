#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/moe_experts.h"
#include "ops/views.h"

namespace reprise::compile {

ReplacementSet fuse_moe_experts(const ops::Registry& registry) {
  ReplacementRule rule;
  rule.name = "moe_experts";
  rule.tensors = {{"x", example_rows()},
                  {"weights", example_rows(2)},
                  {"experts", TensorMeta(DType::kI32, {Dim::symbolic(Symbol::kTokens), 2})},
                  {"gate_up", TensorMeta(DType::kF32, {3, 12, 8})},
                  {"down", TensorMeta(DType::kF32, {3, 8, 6})}};
  rule.scalars = {{"experts_count", int64_t{3}}, {"width", int64_t{6}}, {"both", int64_t{12}}};
  rule.pattern = [](PatternContext& p) {
    ops::ForwardContext& context = p.context();
    ops::LinearWeights gate_up, down;
    gate_up.weight = p["gate_up"];
    down.weight = p["down"];
    const ops::ExpertRoutes routes = ops::moe_route(context, p["experts"], p.integer("experts_count"));
    const Tensor rows = ops::gather_rows(context, p["x"], routes.tokens);
    const Tensor both = ops::grouped_linear(context, rows, gate_up, routes.offsets);
    const Tensor gate = ops::silu(context, ops::slice(context, both, 1, 0, p.integer("width")));
    const Tensor up = ops::slice(context, both, 1, p.integer("width"), p.integer("both"));
    const Tensor y = ops::grouped_linear(context, ops::mul(context, gate, up), down, routes.offsets);
    return std::vector{ops::moe_combine(context, y, p["weights"], routes.places), routes.offsets};
  };
  rule.replacement = [](PatternContext& p) {
    const ops::ExpertsResult result =
        ops::moe_experts(p.context(), p["x"], {p["weights"], p["experts"]}, p["gate_up"], p["down"]);
    return std::vector{result.out, result.offsets};
  };
  ReplacementSet set(registry);
  set.add(std::move(rule));
  return set;
}

}  // namespace reprise::compile
