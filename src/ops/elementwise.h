#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

// Element by element in float32, rounded once at the store. Arguments are float32 or bfloat16, of one shape and dtype;
// rows (the last axis) have no gaps; the result is contiguous.

/// a + b
Tensor add(ForwardContext& context, const Tensor& a, const Tensor& b,
           std::source_location where = std::source_location::current());
/// a * b
Tensor mul(ForwardContext& context, const Tensor& a, const Tensor& b,
           std::source_location where = std::source_location::current());
/// x / (1 + exp(-x))
Tensor silu(ForwardContext& context, const Tensor& x, std::source_location where = std::source_location::current());
/// a / b
Tensor divide(ForwardContext& context, const Tensor& a, const Tensor& b,
              std::source_location where = std::source_location::current());
/// 1 / x
Tensor reciprocal(ForwardContext& context, const Tensor& x,
                  std::source_location where = std::source_location::current());

// The same with the result written over the first argument, in place (see in_place.h).
void add_(ForwardContext& context, const Tensor& a, const Tensor& b,
          std::source_location where = std::source_location::current());
void mul_(ForwardContext& context, const Tensor& a, const Tensor& b,
          std::source_location where = std::source_location::current());
void divide_(ForwardContext& context, const Tensor& a, const Tensor& b,
             std::source_location where = std::source_location::current());
void silu_(ForwardContext& context, const Tensor& x, std::source_location where = std::source_location::current());
void reciprocal_(ForwardContext& context, const Tensor& x,
                 std::source_location where = std::source_location::current());

void register_elementwise(Registry& registry);

}  // namespace reprise::ops
