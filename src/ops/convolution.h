#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Depthwise causal convolution along each sequence: y[t, c] = bias[c] + sum over w of weight[c, w] * x[t - W + 1 + w,
/// c], in float32 in ascending w, rounded once. x [T, C] float32 or bfloat16, weight float32 [C, W], bias float32 [C]
/// or absent. The inputs before a sequence's first row come from its slot of `state` [slots, W - 1, C] (dtype of x;
/// oldest first), which afterwards holds the last W - 1 inputs. Slots and lengths come from the context. A sequence at
/// its start (KV length = query length) reads zeros in place of its state; with KV length 0 (padding) its rows give
/// zeros and no state is touched; a slot outside of `state` reads zeros and keeps nothing.
Tensor causal_conv1d(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& state, std::source_location where = std::source_location::current());

/// What a kernel's plan() checks of the values of the host lists, which the shape function does not see when a graph is
/// bound, updated or run node by node: query and KV lengths that fit each other, the slots and the tokens.
/// kInvalidArgument.
void check_convolution_lists(const OpCall& call);

void register_convolution(Registry& registry);

}  // namespace reprise::ops
