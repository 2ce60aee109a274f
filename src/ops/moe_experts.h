#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/registry.h"

namespace reprise::ops {

struct ExpertsResult {
  Tensor out;      ///< [T, H], of the dtype of x
  Tensor offsets;  ///< int32 [E + 1], as in ExpertRoutes
};

/// What a choice of experts makes of x, in one operator: moe_route, gather_rows, grouped_linear, mul(silu(gate), up),
/// grouped_linear, moe_combine. Exact: bit by bit what these give. x [T, H] float32 or bfloat16; gate_up a stack
/// [E, 2I, H], first the gate's rows, and down [E, H, I], of one dtype.
ExpertsResult moe_experts(ForwardContext& context, const Tensor& x, const ExpertChoice& choice, const Tensor& gate_up,
                          const Tensor& down, std::source_location where = std::source_location::current());

/// The same with stacks of int8 weights, whose `scale` is [E, 2I] and [E, H]: moe_route, gather_rows, dynamic_quantize,
/// int8_grouped_linear, mul(silu(gate), up), dynamic_quantize, int8_grouped_linear, moe_combine. Exact; the rows on the
/// way are stored in the dtype of x.
ExpertsResult int8_moe_experts(ForwardContext& context, const Tensor& x, const ExpertChoice& choice,
                               const LinearWeights& gate_up, const LinearWeights& down,
                               std::source_location where = std::source_location::current());

void register_moe_experts(Registry& registry);

}  // namespace reprise::ops
