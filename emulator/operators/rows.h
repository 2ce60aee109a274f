// Tensors row by row in float32: how most kernels read and write.
#pragma once

#include <vector>

#include "emulator/operators/kernel_arguments.h"

namespace reprise::emulator {

/// Elements of any format as float32 or back; back rounds to nearest even, to integers towards zero and saturating.
void to_floats(const void* from, aclDataType dtype, int64_t count, float* to);
void from_floats(const float* from, int64_t count, aclDataType dtype, void* to);

/// One element of an integer or boolean format.
int64_t integer_at(const void* from, aclDataType dtype, int64_t index);
void set_integer(void* to, aclDataType dtype, int64_t index, int64_t value);

/// Where the rows of a view begin, in elements from its first one: all axes but the last `inner` in order.
class RowOffsets {
 public:
  explicit RowOffsets(const TensorArgument& tensor, int32_t inner = 1) : tensor_(tensor), inner_(inner) {}
  int64_t operator[](int64_t row) const {
    int64_t offset = 0;
    for (int32_t axis = tensor_.rank - inner_; axis-- > 0;) {
      const auto i = static_cast<size_t>(axis);
      offset += row % tensor_.dims[i] * tensor_.strides[i];
      row /= tensor_.dims[i];
    }
    return offset;
  }

 private:
  const TensorArgument& tensor_;
  int32_t inner_;
};

/// The elements of a contiguous tensor from the `first` one on.
inline void read_row(const HostTensor& tensor, int64_t first, int64_t count, float* to) {
  to_floats(tensor.at(first), tensor->dtype, count, to);
}
inline void write_row(const HostTensor& tensor, int64_t first, int64_t count, const float* from) {
  from_floats(from, count, tensor->dtype, tensor.at(first));
}

/// A whole contiguous tensor; empty when it is absent.
inline std::vector<float> read_all(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor->elements()));
  if (!values.empty()) read_row(tensor, 0, tensor->elements(), values.data());
  return values;
}

/// `from` seen with the shape of `to`: strides of 0 where it is repeated.
TensorArgument broadcast_to(const TensorArgument& from, const TensorArgument& to);

/// Rounds each value as a tensor of this format would.
void round_all(float* values, int64_t count, aclDataType dtype);

}  // namespace reprise::emulator
