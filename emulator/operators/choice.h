// How rows of scores become choices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace reprise::emulator {

/// The values become their softmax.
inline void softmax(std::span<float> values) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : values) largest = std::max(largest, value);
  float total = 0;
  for (float& value : values) total += value = std::exp(value - largest);
  for (float& value : values) value /= total;
}

/// Puts the `count` best indices first: the largest first, of equal ones the first; NaN last.
inline void best_first(std::span<const float> values, int64_t count, std::vector<int32_t>& order) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) {
    const float value = values[static_cast<size_t>(i)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int32_t a, int32_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
}

}  // namespace reprise::emulator
