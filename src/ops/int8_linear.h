#pragma once

#include <cstdint>
#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// The most columns whose int8 products are summed in int32 without overflow, whatever the values.
inline constexpr int64_t kMaxInt8Inputs = 131071;

/// What goes with an int8 weight [N, K].
struct Int8LinearTerms {
  Tensor scale;       ///< float32 [N]
  Tensor row_scales;  ///< float32, the shape of x without its last axis; or absent: 1
  Tensor quant_bias;  ///< int32 [N], or absent
  Tensor bias;        ///< float32 [N], or absent
};

/// y = (x weight^T + quant_bias) * scale * row_scales + bias for int8 x [..., K] and weight [N, K] (plain or packed by
/// pack_linear_weight): the products and quant_bias are summed exactly in int32, the rest is float32 in the order
/// written, and y [..., N] is rounded once more to `out`, float32 or bfloat16. K <= kMaxInt8Inputs.
Tensor int8_linear(ForwardContext& context, const Tensor& x, const Tensor& weight, const Int8LinearTerms& terms,
                   DType out, std::source_location where = std::source_location::current());

void register_int8_linear(Registry& registry);

}  // namespace reprise::ops
