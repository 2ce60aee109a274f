#pragma once

#include <cstdint>
#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Words that read_all() adds up to one sum: 64 KiB.
inline constexpr int64_t kReadBlockWords = 16384;

/// Reads every byte of x once and does little else: what a device's memory can deliver. x int32 [N], contiguous; the
/// result, int32 [ceil(N / kReadBlockWords)], holds the sum of each block's words, wrapping at 32 bits. For measuring;
/// no model calls it.
Tensor read_all(ForwardContext& context, const Tensor& x, std::source_location where = std::source_location::current());

/// Products that multiply_adds() sums up for each factor.
inline constexpr int64_t kProductsOfFactor = int64_t{1} << 22;

/// What a device can multiply: each factor, int32 within 0 and 127, times 1, kProductsOfFactor times, summed up in
/// registers by the instructions that products of a dtype use (float32, bfloat16 or int8). factors [N], contiguous; the
/// result, int32 [N], holds factor * kProductsOfFactor. For measuring; no model calls it.
Tensor multiply_adds(ForwardContext& context, const Tensor& factors, DType dtype,
                     std::source_location where = std::source_location::current());

void register_measure(Registry& registry);

}  // namespace reprise::ops
