#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Where the copies of chosen experts lie. A layer may hold copies of some of its E experts, at places of their own in
/// its stacks of weights; `map` int32 [E, 1 + C] says of each expert how many copies it has (at most C) and their
/// places, the one to be preferred first. A step reads it on the device, so that it may change between replays.
/// Without `positions` a token takes the first copy, whoever else is in the batch. With them (int32 [T], of each token
/// in its sequence) the copies share the work: which one a token takes is drawn by a hash of its row and its position,
/// h = p * 0x9E3779B1 + t * 0x85EBCA77; h ^= h >> 15; h *= 0x2C1B3C6D; h ^= h >> 12 (uint32), then h * copies >> 32.
/// experts int32 [T, k]; the result is alike, -1 for what is no expert or has no copy.
Tensor moe_place(ForwardContext& context, const Tensor& experts, const Tensor& map, const Tensor& positions,
                 std::source_location where = std::source_location::current());

void register_moe_place(Registry& registry);

}  // namespace reprise::ops
