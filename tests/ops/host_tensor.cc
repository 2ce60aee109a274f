#include "ops/host_tensor.h"

#include <algorithm>
#include <cstring>

#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

class VectorStorage final : public Storage {
 public:
  explicit VectorStorage(std::vector<std::byte> bytes)
      : Storage(bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Tensor empty_tensor(DType dtype, const Shape& shape) {
  const TensorMeta meta(dtype, shape);
  // One byte more, so that a tensor without elements has an address.
  return Tensor(meta,
                std::make_shared<VectorStorage>(std::vector<std::byte>(std::max<size_t>(meta.contiguous_bytes(), 1))));
}

Tensor float_tensor(DType dtype, const Shape& shape, std::span<const float> values) {
  Tensor tensor = empty_tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kBF16) {
      tensor.data_as<BFloat16>()[i] = to_bfloat16(values[i]);
    } else {
      tensor.data_as<float>()[i] = values[i];
    }
  }
  return tensor;
}

Tensor float_tensor(DType dtype, const Shape& shape, std::initializer_list<float> values) {
  return float_tensor(dtype, shape, std::span<const float>(values.begin(), values.size()));
}

Tensor int_tensor(std::span<const int32_t> values) {
  Tensor tensor = empty_tensor(DType::kI32, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data_as<int32_t>());
  return tensor;
}

Tensor int_tensor(std::initializer_list<int32_t> values) {
  return int_tensor(std::span<const int32_t>(values.begin(), values.size()));
}

Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937& random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;
  return float_tensor(dtype, shape, values);
}

Tensor random_int8_tensor(const Shape& shape, std::mt19937& random) {
  const Tensor tensor = empty_tensor(DType::kI8, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    tensor.data_as<int8_t>()[i] = static_cast<int8_t>(static_cast<int32_t>(random() % 255) - 127);
  }
  return tensor;
}

Tensor random_strided_tensor(DType dtype, const Shape& shape, size_t axis, std::mt19937& random) {
  Shape larger = shape;
  constexpr int64_t kBefore = 3;
  constexpr int64_t kAfter = 2;
  larger[axis] = shape[axis] + Dim(kBefore + kAfter);
  const Tensor whole = random_tensor(dtype, larger, random);
  TensorMeta meta = whole.meta();
  meta.shape = shape;
  return whole.with_meta(meta, static_cast<size_t>(kBefore * whole.stride(axis)) * size_of(dtype));
}

std::vector<float> values_of(const Tensor& tensor) {
  const RowReader reader(tensor);
  std::vector<float> values;
  for (int64_t row = 0; row < reader.rows(); ++row) {
    for (int64_t i = 0; i < reader.columns(); ++i) values.push_back(reader(row, i));
  }
  return values;
}

size_t span_bytes(const TensorMeta& meta) {
  if (meta.shape.elements() == 0) return 0;
  int64_t last = 0;
  for (size_t axis = 0; axis < meta.shape.rank(); ++axis) last += (meta.shape.size(axis) - 1) * meta.strides[axis];
  return static_cast<size_t>(last + 1) * size_of(meta.dtype);
}

Tensor clone_with(const Tensor& tensor, const std::function<void(void* to, const void* from, size_t bytes)>& read) {
  const size_t bytes = span_bytes(tensor.meta());
  std::vector<std::byte> memory(std::max<size_t>(bytes, 1));
  if (bytes > 0) read(memory.data(), tensor.data(), bytes);
  return Tensor(tensor.meta(), std::make_shared<VectorStorage>(std::move(memory)));
}

}  // namespace reprise::ops
