#pragma once

#include <cstdint>
#include <span>

#include "tensor/dim.h"

namespace reprise::ops {

/// A list of host integers that an operator's tiling depends on, such as sequence lengths. Values are borrowed from the
/// step. While a method is traced, the values are absent and the list names a value of the graph.
struct HostList {
  std::span<const int32_t> values;
  int32_t value = -1;  ///< of the graph being traced
  Dim length;          ///< of the list; symbolic while tracing

  HostList() = default;
  HostList(std::span<const int32_t> numbers)
      : values(numbers), length(static_cast<int64_t>(numbers.size())) {}  // NOLINT
  static HostList traced(Dim length, int32_t value) {
    HostList list;
    list.value = value;
    list.length = length;
    return list;
  }
  bool is_traced() const { return value >= 0; }
};

}  // namespace reprise::ops
