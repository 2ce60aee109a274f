#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/quantize.h"
#include "ops/registry.h"

namespace reprise::ops {

// The residual's sum and its norm in one operator. All are exact: bit by bit what the plain operators named here give,
// because each value is rounded where they store it. x and residual [..., D] of one shape and dtype, float32 or
// bfloat16, rows without gaps; weight [D] float32 or of the dtype of the rows (see rms_norm); bias float32 [D]; results
// are contiguous.

struct NormAndSum {
  Tensor y;
  Tensor sum;
};
/// sum = add(x, residual); y = rms_norm(sum, weight, epsilon).
NormAndSum add_rms_norm(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                        double epsilon, std::source_location where = std::source_location::current());
/// sum = add(x, residual); y = rms_norm_bias(sum, weight, bias, epsilon).
NormAndSum add_rms_norm_bias(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                             const Tensor& bias, double epsilon,
                             std::source_location where = std::source_location::current());
/// y, sum as add_rms_norm; the result y is quantize(y, scale, offset). The offset may be absent.
NormAndSum add_rms_norm_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                                 const Tensor& scale, const Tensor& offset, double epsilon,
                                 std::source_location where = std::source_location::current());

/// The same of add_rms_norm_bias.
NormAndSum add_rms_norm_bias_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                      const Tensor& weight, const Tensor& bias, const Tensor& scale,
                                      const Tensor& offset, double epsilon,
                                      std::source_location where = std::source_location::current());

struct QuantizedNormAndSum {
  Quantized y;
  Tensor sum;
};
/// y, sum as add_rms_norm; the result y is dynamic_quantize(y, smooth_scales). The scales may be absent.
QuantizedNormAndSum add_rms_norm_dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                                  const Tensor& weight, const Tensor& smooth_scales, double epsilon,
                                                  std::source_location where = std::source_location::current());

/// The same of add_rms_norm_bias.
QuantizedNormAndSum add_rms_norm_bias_dynamic_quantize(ForwardContext& context, const Tensor& x, const Tensor& residual,
                                                       const Tensor& weight, const Tensor& bias,
                                                       const Tensor& smooth_scales, double epsilon,
                                                       std::source_location where = std::source_location::current());

struct CastNormAndSum {
  Tensor y_float32;
  Tensor y;
  Tensor sum;
};
/// y, sum as add_rms_norm; y_float32 = cast(y, float32).
CastNormAndSum add_rms_norm_cast(ForwardContext& context, const Tensor& x, const Tensor& residual, const Tensor& weight,
                                 double epsilon, std::source_location where = std::source_location::current());

/// hidden = embedding(ids, table, dtype); y = rms_norm(hidden, weight, epsilon). `sum` is the hidden state.
NormAndSum embedding_rms_norm(ForwardContext& context, const Tensor& ids, const Tensor& table, const Tensor& weight,
                              DType dtype, double epsilon,
                              std::source_location where = std::source_location::current());

/// hidden = embedding(ids, table, dtype); y = quantize(rms_norm(hidden, weight, epsilon), scale, offset), or of
/// rms_norm_bias where there is a bias. Bias and offset may be absent. `sum` is the hidden state.
NormAndSum embedding_rms_norm_quantize(ForwardContext& context, const Tensor& ids, const Tensor& table,
                                       const Tensor& weight, const Tensor& bias, const Tensor& scale,
                                       const Tensor& offset, DType dtype, double epsilon,
                                       std::source_location where = std::source_location::current());
/// The same with dynamic_quantize; bias and smooth scales may be absent.
QuantizedNormAndSum embedding_rms_norm_dynamic_quantize(ForwardContext& context, const Tensor& ids, const Tensor& table,
                                                        const Tensor& weight, const Tensor& bias,
                                                        const Tensor& smooth_scales, DType dtype, double epsilon,
                                                        std::source_location where = std::source_location::current());

void register_fused_norm(Registry& registry);

}  // namespace reprise::ops
