#include "tensor/tensor.h"

#include <fmt/core.h>

namespace reprise {

bool TensorMeta::is_contiguous() const {
  if (!format.is_plain()) return false;
  const Strides plain = contiguous_strides(shape);
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (strides[axis] != plain[axis] && shape[axis] != Dim(1)) return false;
  }
  return true;
}

size_t TensorMeta::contiguous_bytes() const { return static_cast<size_t>(shape.elements()) * size_of(dtype); }

std::string TensorMeta::to_string() const {
  std::string text = fmt::format("{}{}", name_of(dtype), shape.to_string());
  if (!format.is_plain()) text += fmt::format("@{}", format.name());
  if (strides != contiguous_strides(shape)) {
    text += "{";
    for (size_t axis = 0; axis < shape.rank(); ++axis) text += fmt::format("{}{}", axis == 0 ? "" : ",", strides[axis]);
    text += "}";
  }
  return text;
}

bool operator==(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.format == b.format && a.shape == b.shape && a.strides == b.strides;
}

Tensor Tensor::borrowed(TensorMeta meta, void* data) {
  Tensor tensor(std::move(meta), nullptr);
  tensor.data_ = data;
  return tensor;
}

Tensor Tensor::traced(TensorMeta meta, int32_t value) {
  Tensor tensor(std::move(meta), nullptr);
  tensor.value_ = value;
  return tensor;
}

Tensor Tensor::with_meta(const TensorMeta& meta, size_t extra_offset_bytes) const {
  Tensor view = *this;
  view.meta_ = meta;
  view.offset_bytes_ += extra_offset_bytes;
  if (view.data_ != nullptr) view.data_ = static_cast<std::byte*>(view.data_) + extra_offset_bytes;
  return view;
}

}  // namespace reprise
