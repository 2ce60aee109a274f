#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// int8_linear for the rows of each expert: y[r] = (x[r] weight[e]^T) * scale[e] * row_scales[r] for the rows r in
/// [offsets[e], offsets[e + 1]), summed exactly in int32, then float32 in the order written, rounded once more to
/// `out`. Rows behind offsets[E] become 0. x int8 [R, K], weight int8 [E, N, K] (a stack, see ops/weight_stack.h),
/// offsets int32 [E + 1], scale float32 [E, N], row_scales float32 [R], y [R, N]. K <= kMaxInt8Inputs.
Tensor int8_grouped_linear(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& offsets,
                           const Tensor& scale, const Tensor& row_scales, DType out,
                           std::source_location where = std::source_location::current());

void register_int8_grouped_linear(Registry& registry);

}  // namespace reprise::ops
