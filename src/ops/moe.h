#pragma once

#include <cstdint>
#include <optional>
#include <source_location>

#include "ops/forward_context.h"
#include "ops/linear.h"
#include "ops/registry.h"

namespace reprise::ops {

// A mixture of experts: each token goes through the k experts that a router chooses for it. T tokens make T * k rows,
// which are sorted by expert, multiplied group by group, and summed up again. No shape depends on the choice.

/// The choice of a router.
struct ExpertChoice {
  Tensor weights;  ///< float32 [T, k], descending; 0 for padding
  Tensor experts;  ///< int32 [T, k]; -1 for padding
};

/// Softmax over all experts in float32, then the `top_k` largest; of equal logits the lower index comes first, and NaN
/// counts as the smallest. `renormalize`: the weights of a token are divided by their sum, taken in their order. logits
/// [T, E] float32 or bfloat16. Rows from context.token_count on are padding and go nowhere; without it all are tokens.
ExpertChoice moe_gating_top_k(ForwardContext& context, const Tensor& logits, int64_t top_k, bool renormalize,
                              std::source_location where = std::source_location::current());

/// Where the rows of a choice go when they are sorted by expert, those of one expert by token.
struct ExpertRoutes {
  Tensor offsets;  ///< int32 [E + 1]: the rows of expert e are [offsets[e], offsets[e + 1])
  Tensor tokens;   ///< int32 [T * k]: the token of each row; -1 behind the last one
  Tensor places;   ///< int32 [T, k]: the row of each choice; -1 where there is none
};

/// Sorts a choice. Experts outside of [0, expert_count) are none.
ExpertRoutes moe_route(ForwardContext& context, const Tensor& experts, int64_t expert_count,
                       std::source_location where = std::source_location::current());

/// y[r] = x[r] weight[e]^T for the rows r of each expert e, as linear() gives it: bit by bit the same for a row
/// whatever the others are. Rows behind offsets[E] become 0. x [R, K], y [R, N]. The weights are a stack [E, N, K], see
/// ops/weight_stack.h, without bias. An int8 stack has scales [E, N]; then these are two operators: dynamic_quantize of
/// x, and int8_grouped_linear.
Tensor grouped_linear(ForwardContext& context, const Tensor& x, const LinearWeights& weights, const Tensor& offsets,
                      std::optional<DType> out_dtype = std::nullopt,
                      std::source_location where = std::source_location::current());

/// out[t] = the sum over j of weights[t, j] * y[places[t, j]], in the order of the choice (so that it does not matter
/// where experts lie), accumulated in float32 and rounded once; 0 where a token has no place. y [R, H], out [T, H] of
/// its dtype.
Tensor moe_combine(ForwardContext& context, const Tensor& y, const Tensor& weights, const Tensor& places,
                   std::source_location where = std::source_location::current());

/// counts[e] += the number of rows of expert e, for int64 counts [E] that outlive the step: what experts have had to
/// do.
void moe_count_rows(ForwardContext& context, const Tensor& offsets, const Tensor& counts,
                    std::source_location where = std::source_location::current());

void register_moe(Registry& registry);

}  // namespace reprise::ops
