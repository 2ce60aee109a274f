#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// y[i] = a[i] b[i] for each i, accumulated in float32 in one order over K for any M, rounded once. a [B, M, K] and
/// b [B, K, N] of one dtype, float32 or bfloat16, rows without gaps; y [B, M, N].
Tensor batch_matmul(ForwardContext& context, const Tensor& a, const Tensor& b,
                    std::source_location where = std::source_location::current());

/// transpose(batch_matmul(a, b), 0, 1), contiguous: y [M, B, N], bit by bit the same sums. a is [B, M, K], or with
/// `transpose_a` [M, B, K], of which the first two axes are exchanged first.
Tensor transpose_batch_matmul(ForwardContext& context, const Tensor& a, const Tensor& b, bool transpose_a,
                              std::source_location where = std::source_location::current());

void register_batch_matmul(Registry& registry);

}  // namespace reprise::ops
