#pragma once

#include <optional>
#include <source_location>
#include <string_view>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// What a linear layer multiplies by. The weight's logical shape is [N, K] whatever its format.
struct LinearWeights {
  /// How the layer is cut when a model is spread over several devices.
  enum class Parallel { kNone, kColumn, kRow };

  Tensor weight = {};  ///< [N, K] float32, bfloat16 or int8, plain or packed by pack_linear_weight
  Tensor bias = {};    ///< float32 [N], or absent
  Parallel parallel = Parallel::kNone;

  // With an int8 weight only (W8A8).
  Tensor scale{};       ///< float32 [N]: of a step of the weight, or with input_scale of a step of the product
  Tensor quant_bias{};  ///< int32 [N], in steps of the product; or absent
  /// x is quantised with it: float32 [1], or [K] of the dtype of x; absent: each row of x with a scale of its own.
  Tensor input_scale{};
  Tensor input_offset{};  ///< of the dtype of the scale, an integer; or absent: 0
};

/// y = x weight^T + bias, accumulated in float32 in one order over K for any number of rows; rounded once, to
/// `out_dtype` (default: the dtype of x). x [..., K], y [..., N]. With an int8 weight these are two operators: quantize
/// or dynamic_quantize of x, then int8_linear.
Tensor linear(ForwardContext& context, const Tensor& x, const LinearWeights& weights,
              std::optional<DType> out_dtype = std::nullopt,
              std::source_location where = std::source_location::current());

/// The weight [N, K] in the format that linear reads fastest: the device's choice, or the named one. The logical shape
/// stays; the storage may be larger. Done once, when a model is loaded.
Tensor pack_linear_weight(ForwardContext& context, const Tensor& weight, std::string_view format = {},
                          std::source_location where = std::source_location::current());

void register_linear(Registry& registry);

}  // namespace reprise::ops
