#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// The same elements in another shape: a view, nothing is moved. x must be contiguous; only the first axis of the shape
/// may be symbolic.
Tensor reshape(ForwardContext& context, const Tensor& x, const Shape& shape,
               std::source_location where = std::source_location::current());

/// Elements [begin, end) of one axis: a view with the strides of x. Symbolic axes cannot be cut.
Tensor slice(ForwardContext& context, const Tensor& x, int64_t axis, int64_t begin, int64_t end,
             std::source_location where = std::source_location::current());
/// Two axes exchanged: a view. Axis 0 stays where it is when it is symbolic.
Tensor transpose(ForwardContext& context, const Tensor& x, int64_t axis_a, int64_t axis_b,
                 std::source_location where = std::source_location::current());

void register_views(Registry& registry);

}  // namespace reprise::ops
