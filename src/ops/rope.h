#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Rotary position embedding (Su et al., 2021) in the half-split form of GPT-NeoX: with (a, b) the two halves of a head
/// and (cos, sin) the halves of the table's row for the token's position, y = (a cos - b sin, b cos + a sin), in
/// float32, rounded once. x [T, heads, D] float32 or bfloat16, table float32 [positions, D] = [cos | sin], positions
/// from the context. A position outside of the table gives zeros.
Tensor rope(ForwardContext& context, const Tensor& x, const Tensor& table,
            std::source_location where = std::source_location::current());
/// rope written over x, in place (see in_place.h).
void rope_(ForwardContext& context, const Tensor& x, const Tensor& table,
           std::source_location where = std::source_location::current());

/// For references: writes `x` turned by the table at `positions` to `y`, which may be x.
void reference_rope_of(const Tensor& x, const Tensor& positions, const Tensor& table, const Tensor& y);

void register_rope(Registry& registry);

}  // namespace reprise::ops
