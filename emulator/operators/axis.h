// Tensors as [outer, size, inner] around one axis.
#pragma once

#include "emulator/operators/kernel_arguments.h"
#include "emulator/operators/operator_error.h"

namespace reprise::emulator {

struct AxisSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;

  int64_t lines() const { return outer * inner; }
  /// Of the elements along the axis, `inner` apart, the first one.
  int64_t first_of(int64_t line) const { return line / inner * size * inner + line % inner; }
};

inline AxisSplit split_at(const TensorArgument& tensor, int64_t axis) {
  AxisSplit split;
  for (int64_t i = 0; i < tensor.rank; ++i) {
    int64_t& part = i < axis ? split.outer : i == axis ? split.size : split.inner;
    part *= tensor.dims[static_cast<size_t>(i)];
  }
  return split;
}

/// An axis that may be counted from the last one; of a scalar there is one.
inline int64_t axis_of(const TensorArgument& tensor, int64_t dim) {
  const int64_t axes = tensor.rank == 0 ? 1 : tensor.rank;
  require(dim >= -axes && dim < axes, "dim is {}, expected {} to {}", dim, -axes, axes - 1);
  return dim < 0 ? dim + axes : dim;
}

}  // namespace reprise::emulator
