#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensor/dtype.h"
#include "tensor/format.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace reprise {

/// What is known of a tensor without its memory: element type, shape, strides and format.
struct TensorMeta {
  DType dtype = DType::kF32;
  Format format;
  Shape shape;
  Strides strides{};

  TensorMeta() = default;
  TensorMeta(DType element, const Shape& dims, Format layout = Format())
      : dtype(element), format(layout), shape(dims), strides(contiguous_strides(dims)) {}

  /// No gaps between elements and the axes in order.
  bool is_contiguous() const;
  /// Bytes that a contiguous "nd" tensor of this shape takes; throws kGraphBreak when symbolic.
  size_t contiguous_bytes() const;
  /// "bfloat16[s0, 64]", with the format and the strides where they are not the plain ones.
  std::string to_string() const;
  friend bool operator==(const TensorMeta&, const TensorMeta&);
};

/// A handle: metadata, and the storage that it points into. Copies share the storage. While a method is traced, the
/// storage is absent and the tensor names a value of the graph instead.
class Tensor {
 public:
  /// No value of a graph.
  static constexpr int32_t kNoValue = -1;

  /// An absent tensor: an optional argument that is not given.
  Tensor() = default;
  Tensor(TensorMeta meta, std::shared_ptr<Storage> storage, size_t offset_bytes = 0)
      : meta_(std::move(meta)), storage_(std::move(storage)), offset_bytes_(offset_bytes), defined_(true) {
    if (storage_ != nullptr && storage_->data() != nullptr) {
      data_ = static_cast<std::byte*>(storage_->data()) + offset_bytes_;
    }
  }
  /// A tensor of device memory that somebody else keeps alive for as long as it is used.
  static Tensor borrowed(TensorMeta meta, void* data);
  /// A tensor that stands for a value of a graph being traced.
  static Tensor traced(TensorMeta meta, int32_t value);

  bool defined() const { return defined_; }
  bool is_traced() const { return value_ != kNoValue; }
  int32_t value() const { return value_; }
  /// Neither memory nor a graph value: the weights of a model that was built without them.
  bool is_meta() const { return defined_ && data_ == nullptr && !is_traced(); }

  const TensorMeta& meta() const { return meta_; }
  DType dtype() const { return meta_.dtype; }
  const Format& format() const { return meta_.format; }
  const Shape& shape() const { return meta_.shape; }
  size_t rank() const { return meta_.shape.rank(); }
  int64_t size(size_t axis) const { return meta_.shape.size(axis); }
  int64_t stride(size_t axis) const { return meta_.strides[axis]; }
  bool is_contiguous() const { return meta_.is_contiguous(); }

  /// Device address of the first element; null for absent, traced and meta tensors.
  void* data() const { return data_; }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data_);
  }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  size_t offset_bytes() const { return offset_bytes_; }

  /// The same memory (or graph value) with other metadata, `extra_offset_bytes` further on.
  Tensor with_meta(const TensorMeta& meta, size_t extra_offset_bytes = 0) const;

 private:
  TensorMeta meta_;
  std::shared_ptr<Storage> storage_;
  void* data_ = nullptr;
  size_t offset_bytes_ = 0;
  int32_t value_ = kNoValue;
  bool defined_ = false;
};

}  // namespace reprise
