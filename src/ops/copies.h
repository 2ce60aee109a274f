#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// x in another float dtype, rounded to nearest even. x float32 or bfloat16 of any strides; the result is contiguous.
Tensor cast(ForwardContext& context, const Tensor& x, DType dtype,
            std::source_location where = std::source_location::current());

/// A contiguous copy of x, of any dtype and strides.
Tensor copy(ForwardContext& context, const Tensor& x, std::source_location where = std::source_location::current());

void register_copies(Registry& registry);

}  // namespace reprise::ops
