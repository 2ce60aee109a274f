#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Static quantisation to int8: y = clamp(round(x * (1 / scale)) + offset, -128, 127), in float32, round half to even;
/// NaN gives 0. x [..., N] float32 or bfloat16; scale and offset (absent: 0; integers, also in their dtype float32)
/// float32 [1] or [N], or both of the dtype of x where the device's quantisations want that: then x may be divided by
/// the scale instead.
Tensor quantize(ForwardContext& context, const Tensor& x, const Tensor& scale, const Tensor& offset,
                std::source_location where = std::source_location::current());

struct Quantized {
  Tensor values;  ///< int8 [..., N]
  Tensor scales;  ///< float32 [...]: the shape of x without its last axis
};
/// Dynamic quantisation to int8, for each row (token) by itself, in float32: with z = x * smooth_scales (absent: x),
/// scale = max|z| / 127 and y = round(z / scale), half to even, within -128 and 127. A row of zeros gives zeros and the
/// scale 0. A row with an infinity or a NaN gets a scale that is one, and values of no meaning. x [..., N] of at least
/// two axes, float32 or bfloat16; smooth_scales float32 [N].
Quantized dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& smooth_scales = {},
                           std::source_location where = std::source_location::current());

/// Checks of the scale and the offset (which may be absent) of a static quantisation of rows as long as those of
/// argument `rows`: both float32, or both of `row_dtype`.
void require_quantize_scales(const OpCall& call, size_t scale, size_t offset, DType row_dtype, size_t rows = 0);
/// The metadata of a dynamic quantisation's results for an argument 0 of that shape.
void infer_dynamic_scales(const OpCall& call, std::span<TensorMeta> values_and_scales);

// For references: a float tensor to int8.
void reference_quantize_of(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& y);
void reference_dynamic_quantize_of(const Tensor& x, const Tensor& smooth_scales, const Tensor& y, const Tensor& scales);

void register_quantize(Registry& registry);

}  // namespace reprise::ops
