#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace reprise::device {

/// The sizes that small blocks of memory are rounded up to, so that a free one fits the next request of about its size:
/// four for each doubling, 64, 128, 192, 256, 320, 384, 448, 512, 640 ... 1 MiB.
struct SizeClasses {
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kLargest = size_t{1} << 20;
  static constexpr size_t kCount = 52;

  /// Of the smallest size that holds so many bytes, at most kLargest.
  static constexpr size_t index_of(size_t bytes) {
    const size_t units = (std::max(bytes, size_t{1}) + kAlignment - 1) / kAlignment;
    if (units <= 8) return units - 1;  // 64 to 512 in steps of 64
    // Between two powers of two, four steps of a quarter of the lower one.
    const size_t exponent = static_cast<size_t>(std::bit_width(units - 1)) - 1;  // 2^exponent < units
    const size_t step = size_t{1} << (exponent - 2);
    const size_t steps = (units - (size_t{1} << exponent) + step - 1) / step;  // 1 to 4
    return 7 + (exponent - 3) * 4 + steps;
  }

  static constexpr size_t bytes_of(size_t index) {
    if (index < 8) return (index + 1) * kAlignment;
    const size_t exponent = 3 + (index - 8) / 4;
    const size_t steps = (index - 8) % 4 + 1;
    return ((size_t{1} << exponent) + steps * (size_t{1} << (exponent - 2))) * kAlignment;
  }
};

static_assert(SizeClasses::bytes_of(SizeClasses::kCount - 1) == SizeClasses::kLargest);

}  // namespace reprise::device
