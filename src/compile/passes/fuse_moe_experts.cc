#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/moe_experts.h"
#include "ops/views.h"

namespace reprise::compile {

namespace {

ops::LinearWeights expert_stack(const PatternContext& p, const std::string& name, bool quantized) {
  ops::LinearWeights weights;
  weights.weight = p[name];
  if (quantized) weights.scale = p[name + "_scale"];
  return weights;
}

ReplacementRule experts_rule(bool quantized) {
  const DType dtype = quantized ? DType::kI8 : DType::kF32;
  ReplacementRule rule;
  rule.name = quantized ? "int8_moe_experts" : "moe_experts";
  rule.tensors = {{"x", example_rows()},
                  {"weights", example_rows(2)},
                  {"experts", TensorMeta(DType::kI32, {Dim::symbolic(Symbol::kTokens), 2})},
                  {"gate_up", TensorMeta(dtype, {3, 12, 8})},
                  {"down", TensorMeta(dtype, {3, 8, 6})}};
  if (quantized) {
    rule.tensors.push_back({"gate_up_scale", TensorMeta(DType::kF32, {3, 12})});
    rule.tensors.push_back({"down_scale", TensorMeta(DType::kF32, {3, 8})});
  }
  rule.scalars = {{"experts_count", int64_t{3}}, {"width", int64_t{6}}, {"both", int64_t{12}}};
  rule.pattern = [quantized](PatternContext& p) {
    ops::ForwardContext& context = p.context();
    const ops::LinearWeights gate_up = expert_stack(p, "gate_up", quantized);
    const ops::LinearWeights down = expert_stack(p, "down", quantized);
    const ops::ExpertRoutes routes = ops::moe_route(context, p["experts"], p.integer("experts_count"));
    const Tensor rows = ops::gather_rows(context, p["x"], routes.tokens);
    const Tensor both = ops::grouped_linear(context, rows, gate_up, routes.offsets);
    const Tensor gate = ops::silu(context, ops::slice(context, both, 1, 0, p.integer("width")));
    const Tensor up = ops::slice(context, both, 1, p.integer("width"), p.integer("both"));
    const Tensor y = ops::grouped_linear(context, ops::mul(context, gate, up), down, routes.offsets);
    return std::vector{ops::moe_combine(context, y, p["weights"], routes.places), routes.offsets};
  };
  rule.replacement = [quantized](PatternContext& p) {
    const ops::ExpertChoice choice{p["weights"], p["experts"]};
    const ops::ExpertsResult result =
        quantized ? ops::int8_moe_experts(p.context(), p["x"], choice, expert_stack(p, "gate_up", true),
                                          expert_stack(p, "down", true))
                  : ops::moe_experts(p.context(), p["x"], choice, p["gate_up"], p["down"]);
    return std::vector{result.out, result.offsets};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_moe_experts(const ops::Registry& registry) {
  ReplacementSet set(registry);
  for (const bool quantized : {false, true}) set.add(experts_rule(quantized));
  return set;
}

}  // namespace reprise::compile
