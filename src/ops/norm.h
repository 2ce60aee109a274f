#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the last axis, computed in float32 and rounded once.
/// x [..., D] of float32 or bfloat16; weight float32 [D]. (Zhang and Sennrich, 2019, without the mean.)
Tensor rms_norm(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
                std::source_location where = std::source_location::current());

void register_norm(Registry& registry);

}  // namespace reprise::ops
