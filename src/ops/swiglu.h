#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/quantize.h"
#include "ops/registry.h"

namespace reprise::ops {

// The gated activation of a feed-forward layer in one operator. All are exact: bit by bit what the plain operators
// named here give. gate and up [..., N] of one shape and dtype, float32 or bfloat16; rows without gaps, so the halves
// of one merged product [..., 2N] are taken as they lie.

/// mul(silu(gate), up)
Tensor swiglu(ForwardContext& context, const Tensor& gate, const Tensor& up,
              std::source_location where = std::source_location::current());
/// The same of gate_up [..., 2N] = [gate | up], as two slices of it: views.
Tensor swiglu(ForwardContext& context, const Tensor& gate_up,
              std::source_location where = std::source_location::current());
/// quantize(mul(silu(gate), up), scale, offset); the offset may be absent.
Tensor swiglu_quantize(ForwardContext& context, const Tensor& gate, const Tensor& up, const Tensor& scale,
                       const Tensor& offset, std::source_location where = std::source_location::current());
/// dynamic_quantize(mul(silu(gate), up), smooth_scales); the scales may be absent.
Quantized swiglu_dynamic_quantize(ForwardContext& context, const Tensor& gate, const Tensor& up,
                                  const Tensor& smooth_scales = {},
                                  std::source_location where = std::source_location::current());

void register_swiglu(Registry& registry);

}  // namespace reprise::ops
