#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// A copy of x [N, ...] in which row rows[i] is updates[i]; rows outside of x are skipped, and those inside must be
/// distinct. x and updates [M, ...] are contiguous, of one dtype and of one shape but for the first axis; rows int32
/// [M]. With scatter_rows_ in its place, a cache that is written through a view is written where it lies.
Tensor scatter_rows(ForwardContext& context, const Tensor& x, const Tensor& rows, const Tensor& updates,
                    std::source_location where = std::source_location::current());
/// scatter_rows written over x, in place (see in_place.h): the other rows are not touched.
void scatter_rows_(ForwardContext& context, const Tensor& x, const Tensor& rows, const Tensor& updates,
                   std::source_location where = std::source_location::current());

void register_scatter(Registry& registry);

}  // namespace reprise::ops
