// What becomes of the exact sums of int8 products.
#pragma once

#include <vector>

#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {

/// The factors and addends of one matrix of products, each for all columns.
struct Int8Terms {
  ColumnValues scale;
  std::vector<int32_t> integer_bias;  ///< added to the sums, which may go around; empty: none
  ColumnValues bias;                  ///< added behind the scales
  bool has_bias = false;
};

/// A sum with all that, in float32.
inline float dequantized(int32_t sum, int64_t column, float row_scale, const Int8Terms& terms) {
  if (!terms.integer_bias.empty()) {
    const auto addend = static_cast<uint32_t>(terms.integer_bias[static_cast<size_t>(column)]);
    sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + addend);
  }
  float value = static_cast<float>(sum) * terms.scale[column];
  value *= row_scale;
  return terms.has_bias ? value + terms.bias[column] : value;
}

/// Scales as float32. Those of 64 bits hold a float with 13 fewer bits in their lower half.
inline std::vector<float> read_scales(const HostTensor& scales) {
  if (!scales.defined() || size_of(scales->dtype) != 8) return read_all(scales);
  std::vector<float> values(static_cast<size_t>(scales->elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto packed = static_cast<uint64_t>(integer_at(scales.at(0), scales->dtype, static_cast<int64_t>(i)));
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(packed) & 0xffffe000U);
  }
  return values;
}

/// More terms than this could leave int32.
inline constexpr int64_t kMostInt8Terms = (int64_t{1} << 17) - 1;

}  // namespace reprise::emulator
