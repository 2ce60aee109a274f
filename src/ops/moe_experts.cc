#include "ops/moe_experts.h"

#include <cstring>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/reference_dispatcher.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

constexpr size_t kX = 0, kWeights = 1, kExperts = 2, kGateUp = 3, kDown = 4;

void infer_moe_experts(const OpCall& call, std::span<TensorMeta> outputs) {
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
  require_float(call, kGateUp);
  require_rank(call, kGateUp, 3);
  const Shape& gate_up = call.inputs[kGateUp].shape();
  if (gate_up[1].value() % 2 != 0 || gate_up[2] != x[1]) {
    fail_argument(
        call, kGateUp,
        fmt::format("has shape {}, expected [experts, an even number, {}]", gate_up.to_string(), x[1].to_string()));
  }
  require_same_dtype(call, kDown, kGateUp);
  require_shape(call, kDown, Shape{gate_up[0], x[1], gate_up[1].value() / 2});
  outputs[0] = TensorMeta(call.inputs[kX].dtype(), x);
  outputs[1] = TensorMeta(DType::kI32, Shape{gate_up[0] + 1});
}

/// The plain operators' own references, one after the other.
void reference_moe_experts(const OpCall& call) {
  const Registry registry = make_catalogue();
  ReferenceDispatcher dispatcher(registry);
  ForwardContext context(dispatcher);
  LinearWeights gate_up, down;
  gate_up.weight = call.inputs[kGateUp];
  down.weight = call.inputs[kDown];
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

}  // namespace

ExpertsResult moe_experts(ForwardContext& context, const Tensor& x, const ExpertChoice& choice, const Tensor& gate_up,
                          const Tensor& down, std::source_location where) {
  auto [out, offsets] =
      dispatch_call_of<2>(context, "moe_experts", {x, choice.weights, choice.experts, gate_up, down}, {}, where);
  return {out, offsets};
}

void register_moe_experts(Registry& registry) {
  registry.add(
      OpDef("moe_experts(Tensor x, Tensor weights, Tensor experts, Tensor gate_up, Tensor down) -> Tensor out, "
            "Tensor offsets",
            {.rowwise = false}, infer_moe_experts, reference_moe_experts));
}

}  // namespace reprise::ops
