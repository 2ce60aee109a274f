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

void register_measure(Registry& registry);

}  // namespace reprise::ops
