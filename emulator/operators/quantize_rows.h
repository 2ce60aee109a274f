// How rows of float32 become int8.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/operators/meta/numbers.h"

namespace reprise::emulator {

/// One value for all columns, or one for each; nothing: `otherwise`.
class ColumnValues {
 public:
  explicit ColumnValues(std::vector<float> values, float otherwise = 0) : values_(std::move(values)) {
    if (values_.empty()) values_.push_back(otherwise);
  }
  float operator[](int64_t column) const { return values_[values_.size() == 1 ? 0 : static_cast<size_t>(column)]; }

 private:
  std::vector<float> values_;
};

/// Rounds x * scale + offset, or x / scale + offset: half to even, saturating.
inline void quantize_row(const float* x, int64_t columns, const ColumnValues& scale, const ColumnValues& offset,
                         bool divide, int8_t* y) {
  for (int64_t i = 0; i < columns; ++i) {
    y[i] = float_to_int8((divide ? x[i] / scale[i] : x[i] * scale[i]) + offset[i]);
  }
}

/// Quantises with the scale max |x| / 127, which it returns; a row of zeros has the scale 0 and stays one.
inline float dynamic_quantize_row(const float* x, int64_t columns, int8_t* y) {
  float largest = 0;
  for (int64_t i = 0; i < columns; ++i) {
    const float magnitude = std::fabs(x[i]);
    if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
  }
  const float scale = largest / 127.0F;
  for (int64_t i = 0; i < columns; ++i) y[i] = scale == 0 ? int8_t{0} : float_to_int8(x[i] / scale);
  return scale;
}

}  // namespace reprise::emulator
