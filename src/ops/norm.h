#pragma once

#include <source_location>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the last axis, computed in float32 and rounded once.
/// x [..., D] of float32 or bfloat16; weight [D] of float32, or of the dtype of x where the device's norms want that
/// (Capabilities::vectors_like_rows). (Zhang and Sennrich, 2019, without the mean.)
Tensor rms_norm(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
                std::source_location where = std::source_location::current());
/// rms_norm with a bias: y = x / sqrt(mean(x^2) + epsilon) * weight + bias, rounded once. bias float32 [D].
Tensor rms_norm_bias(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                     std::source_location where = std::source_location::current());
/// rms_norm written over x, in place (see in_place.h).
void rms_norm_(ForwardContext& context, const Tensor& x, const Tensor& weight, double epsilon,
               std::source_location where = std::source_location::current());

/// That an argument is a float32 vector of one value for each column of argument `rows`, as norms' weights are.
void require_column_vector(const OpCall& call, size_t input, size_t rows = 0);
/// The same of a vector that may also have the dtype `row_dtype`.
void require_column_vector_like(const OpCall& call, size_t input, DType row_dtype, size_t rows = 0);
/// For references: writes the norm of `x`, with an optional bias, to `y`.
void reference_norm_of(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, const Tensor& y);

void register_norm(Registry& registry);

}  // namespace reprise::ops
