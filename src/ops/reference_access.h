#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/bfloat16.h"
#include "tensor/tensor.h"

namespace reprise::ops {

/// Reads a float tensor of any rank as rows of its last axis, in float32: for naive references on host memory only.
class RowReader {
 public:
  explicit RowReader(const Tensor& tensor) : tensor_(tensor) {}
  int64_t columns() const { return tensor_.rank() == 0 ? 1 : tensor_.size(tensor_.rank() - 1); }
  int64_t rows() const { return columns() == 0 ? 0 : tensor_.shape().elements() / columns(); }
  float operator()(int64_t row, int64_t column) const {
    const int64_t index = element(row, column);
    if (tensor_.dtype() == DType::kBF16) return to_float(tensor_.data_as<BFloat16>()[index]);
    return tensor_.data_as<float>()[index];
  }
  /// Element index in memory, honouring strides.
  int64_t element(int64_t row, int64_t column) const {
    int64_t index = tensor_.rank() == 0 ? 0 : column * tensor_.stride(tensor_.rank() - 1);
    for (size_t axis = tensor_.rank(); axis-- > 1;) {
      const size_t outer = axis - 1;
      index += row % tensor_.size(outer) * tensor_.stride(outer);
      row /= tensor_.size(outer);
    }
    return index;
  }

 private:
  const Tensor& tensor_;
};

/// Writes a float tensor the same way, rounding to its dtype.
class RowWriter {
 public:
  explicit RowWriter(const Tensor& tensor) : tensor_(tensor), reader_(tensor) {}
  void set(int64_t row, int64_t column, float value) {
    const int64_t index = reader_.element(row, column);
    if (tensor_.dtype() == DType::kBF16) {
      tensor_.data_as<BFloat16>()[index] = to_bfloat16(value);
    } else {
      tensor_.data_as<float>()[index] = value;
    }
  }

 private:
  const Tensor& tensor_;
  RowReader reader_;
};

/// Contiguous host memory for what a fused operator's reference stores in between, as the operators that it replaces
/// do.
class ScratchTensor {
 public:
  explicit ScratchTensor(const TensorMeta& meta)
      : memory_(meta.contiguous_bytes()), tensor_(Tensor::borrowed(meta, memory_.data())) {}
  const Tensor& tensor() const { return tensor_; }

 private:
  std::vector<std::byte> memory_;
  Tensor tensor_;
};

}  // namespace reprise::ops
