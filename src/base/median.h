#pragma once

#include <algorithm>

namespace reprise {

/// The middle one of the values, which are at least one; of an even number the larger of the two in the middle.
template <typename Values>
auto upper_median(Values values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace reprise
