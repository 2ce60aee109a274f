#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace reprise::ops {

constexpr DType kF32 = DType::kF32;
/// The dtypes of activations.
constexpr DType kFloats[] = {DType::kF32, DType::kBF16};

/// Tensors in host memory for tests.
Tensor empty_tensor(DType dtype, const Shape& shape);
Tensor float_tensor(DType dtype, const Shape& shape, std::span<const float> values);
Tensor float_tensor(DType dtype, const Shape& shape, std::initializer_list<float> values);
Tensor int_tensor(std::span<const int32_t> values);
Tensor int_tensor(std::initializer_list<int32_t> values);
/// Uniform in [-1, 1).
Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937& random);
/// int8 from -127 to 127, each as likely.
Tensor random_int8_tensor(const Shape& shape, std::mt19937& random);
/// A view with gaps: rows of `shape` cut out of a last (or, by `axis`, another) axis that is larger on both sides.
Tensor random_strided_tensor(DType dtype, const Shape& shape, size_t axis, std::mt19937& random);

/// All elements of a float tensor in row-major order.
std::vector<float> values_of(const Tensor& tensor);
/// Bytes from the first element to past the last one.
size_t span_bytes(const TensorMeta& meta);
/// A copy with the same strides in memory of its own: `read` copies bytes out of the tensor's memory.
Tensor clone_with(const Tensor& tensor, const std::function<void(void* to, const void* from, size_t bytes)>& read);

}  // namespace reprise::ops
