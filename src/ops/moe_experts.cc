#include "ops/moe_experts.h"

#include <fmt/core.h>

#include <cstring>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/int8_linear.h"
#include "ops/reference_dispatcher.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

// Arguments of moe_experts, and of int8_moe_experts, where the stack `down` follows the scale of the other one.
constexpr size_t kX = 0, kWeights = 1, kExperts = 2, kGateUp = 3, kDown = 4;
constexpr size_t kGateUpScale = 4, kInt8Down = 5, kDownScale = 6;

/// Everything but the dtypes of the stacks.
void infer_experts(const OpCall& call, size_t down, std::span<TensorMeta> outputs) {
  require_float(call, kX);
  require_rank(call, kX, 2);
  require_dense_rows(call, kX);
  require_dtype(call, kExperts, DType::kI32);
  require_rank(call, kExperts, 2);
  require_contiguous(call, kExperts);
  require_dtype(call, kWeights, DType::kF32);
  require_shape(call, kWeights, call.inputs[kExperts].shape());
  require_contiguous(call, kWeights);
  const Shape& x = call.inputs[kX].shape();
  const Shape& choice = call.inputs[kExperts].shape();
  if (choice[0] != x[0]) {
    fail_argument(call, kExperts, fmt::format("has shape {}, expected {} rows", choice.to_string(), x[0].to_string()));
  }
  require_rank(call, kGateUp, 3);
  const Shape& gate_up = call.inputs[kGateUp].shape();
  if (gate_up[1].value() % 2 != 0 || gate_up[2] != x[1]) {
    fail_argument(
        call, kGateUp,
        fmt::format("has shape {}, expected [experts, an even number, {}]", gate_up.to_string(), x[1].to_string()));
  }
  require_same_dtype(call, down, kGateUp);
  require_shape(call, down, Shape{gate_up[0], x[1], gate_up[1].value() / 2});
  outputs[0] = TensorMeta(call.inputs[kX].dtype(), x);
  outputs[1] = TensorMeta(DType::kI32, Shape{gate_up[0] + 1});
}

void infer_moe_experts(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, kGateUp);
  infer_experts(call, kDown, outputs);
}

void infer_int8_moe_experts(const OpCall& call, std::span<TensorMeta> outputs) {
  require_dtype(call, kGateUp, DType::kI8);
  infer_experts(call, kInt8Down, outputs);
  for (const auto& [stack, scale] : {std::pair(kGateUp, kGateUpScale), {kInt8Down, kDownScale}}) {
    const Shape& shape = call.inputs[stack].shape();
    require_dtype(call, scale, DType::kF32);
    require_shape(call, scale, Shape{shape[0], shape[1]});
    require_contiguous(call, scale);
    if (call.inputs[stack].size(2) > kMaxInt8Inputs) {
      fail_argument(call, stack,
                    fmt::format("has {} columns, expected at most {}", call.inputs[stack].size(2), kMaxInt8Inputs));
    }
  }
}

/// The plain operators' own references, one after the other.
void reference_experts(const OpCall& call, const LinearWeights& gate_up, const LinearWeights& down) {
  const Registry registry = make_catalogue();
  ReferenceDispatcher dispatcher(registry);
  ForwardContext context(dispatcher);
  const int64_t intermediate = down.weight.size(2);
  const ExpertRoutes routes = moe_route(context, call.inputs[kExperts], down.weight.size(0));
  const Tensor rows = gather_rows(context, call.inputs[kX], routes.tokens);
  const Tensor both = grouped_linear(context, rows, gate_up, routes.offsets);
  const Tensor gate = silu(context, slice(context, both, 1, 0, intermediate));
  const Tensor hidden = mul(context, gate, slice(context, both, 1, intermediate, 2 * intermediate));
  const Tensor y = grouped_linear(context, hidden, down, routes.offsets);
  const Tensor out = moe_combine(context, y, call.inputs[kWeights], routes.places);
  std::memcpy(call.outputs[0].data(), out.data(), out.meta().contiguous_bytes());
  std::memcpy(call.outputs[1].data(), routes.offsets.data(), routes.offsets.meta().contiguous_bytes());
}

void reference_moe_experts(const OpCall& call) {
  LinearWeights gate_up, down;
  gate_up.weight = call.inputs[kGateUp];
  down.weight = call.inputs[kDown];
  reference_experts(call, gate_up, down);
}

void reference_int8_moe_experts(const OpCall& call) {
  LinearWeights gate_up, down;
  gate_up.weight = call.inputs[kGateUp];
  gate_up.scale = call.inputs[kGateUpScale];
  down.weight = call.inputs[kInt8Down];
  down.scale = call.inputs[kDownScale];
  reference_experts(call, gate_up, down);
}

}  // namespace

ExpertsResult moe_experts(ForwardContext& context, const Tensor& x, const ExpertChoice& choice, const Tensor& gate_up,
                          const Tensor& down, std::source_location where) {
  auto [out, offsets] =
      dispatch_call_of<2>(context, "moe_experts", {x, choice.weights, choice.experts, gate_up, down}, {}, where);
  return {out, offsets};
}

ExpertsResult int8_moe_experts(ForwardContext& context, const Tensor& x, const ExpertChoice& choice,
                               const LinearWeights& gate_up, const LinearWeights& down, std::source_location where) {
  auto [out, offsets] = dispatch_call_of<2>(
      context, "int8_moe_experts",
      {x, choice.weights, choice.experts, gate_up.weight, gate_up.scale, down.weight, down.scale}, {}, where);
  return {out, offsets};
}

void register_moe_experts(Registry& registry) {
  registry.add(
      OpDef("moe_experts(Tensor x, Tensor weights, Tensor experts, Tensor gate_up, Tensor down) -> Tensor out, "
            "Tensor offsets",
            {.rowwise = false}, infer_moe_experts, reference_moe_experts));
  registry.add(
      OpDef("int8_moe_experts(Tensor x, Tensor weights, Tensor experts, Tensor gate_up, Tensor gate_up_scale, "
            "Tensor down, Tensor down_scale) -> Tensor out, Tensor offsets",
            {.rowwise = false}, infer_int8_moe_experts, reference_int8_moe_experts));
}

}  // namespace reprise::ops
