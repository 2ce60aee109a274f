#pragma once

#include <cstddef>
#include <span>

#include "tensor/bfloat16.h"
#include "tensor/dtype.h"

namespace reprise::load {

/// Converts stored elements (F32, BF16 or F16, little-endian, any alignment) to float32: exact for all three. NaN stays
/// NaN. Throws kInvalidArgument for other dtypes, or unless source.size() == target.size() * size_of(from).
void convert_to_float(DType from, std::span<const std::byte> source, std::span<float> target);

/// The same to bfloat16, rounding to nearest with ties to even; exact for BF16. float16 rounds once, from its exact
/// value.
void convert_to_bfloat16(DType from, std::span<const std::byte> source, std::span<BFloat16> target);

/// Chooses by `to` (F32 or BF16); `target` may have any alignment and must not overlap `source`.
void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target);

}  // namespace reprise::load
