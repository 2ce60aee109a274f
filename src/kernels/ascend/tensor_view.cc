#include "kernels/ascend/tensor_view.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace reprise::kernels::ascend {

aclDataType acl_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ACL_FLOAT;
    case DType::kBF16:
      return ACL_BF16;
    case DType::kF16:
      return ACL_FLOAT16;
    case DType::kI8:
      return ACL_INT8;
    case DType::kU8:
      return ACL_UINT8;
    case DType::kI32:
      return ACL_INT32;
    case DType::kI64:
      return ACL_INT64;
    case DType::kBool:
      break;
  }
  return ACL_BOOL;
}

int64_t size_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_BF16:
    case ACL_FLOAT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
      return 4;
    case ACL_INT64:
      return 8;
    default:
      return 0;
  }
}

TensorView TensorView::of(const Tensor& tensor) {
  TensorView view;
  if (!tensor.defined()) return view;
  static_assert(Shape::kMaxRank < kMaxRank);
  view.data = tensor.data();
  view.dtype = acl_dtype(tensor.dtype());
  view.rank = tensor.rank();
  for (size_t axis = 0; axis < view.rank; ++axis) {
    view.sizes[axis] = tensor.size(axis);
    view.strides[axis] = tensor.stride(axis);
  }
  return view;
}

TensorView TensorView::matrix_of(const Tensor& weight) {
  TensorView view = of(weight);
  view.blocked = weight.format() == kBlockedFormat;
  if (!view.blocked) {
    if (!weight.format().is_plain()) {
      throw Error(ErrorCode::kUnsupported, "a weight of {} is not in the format '{}'", weight.meta().to_string(),
                  kBlockedFormat.name());
    }
    return view.transposed(view.rank - 2, view.rank - 1);
  }
  std::swap(view.sizes[view.rank - 2], view.sizes[view.rank - 1]);
  int64_t stride = 1;
  for (size_t axis = view.rank; axis-- > 0; stride *= view.sizes[axis]) view.strides[axis] = stride;
  return view;
}

TensorView TensorView::contiguous(void* data, aclDataType dtype, std::initializer_list<int64_t> sizes) {
  REPRISE_CHECK(sizes.size() <= kMaxRank);
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = sizes.size();
  std::copy(sizes.begin(), sizes.end(), view.sizes.begin());
  int64_t stride = 1;
  for (size_t axis = view.rank; axis-- > 0; stride *= std::max<int64_t>(view.sizes[axis], 1)) {
    view.strides[axis] = stride;
  }
  return view;
}

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (size_t axis = 0; axis < rank; ++axis) count *= sizes[axis];
  return count;
}

bool TensorView::is_contiguous() const {
  if (elements() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = rank; axis-- > 0; expected *= sizes[axis]) {
    if (sizes[axis] != 1 && strides[axis] != expected) return false;
  }
  return true;
}

int64_t TensorView::storage_elements() const {
  if (elements() == 0) return 0;
  if (blocked) {
    const int64_t columns = kBlockBytes / size_of(dtype);
    const int64_t matrix =
        (size_back(2) + kBlockRows - 1) / kBlockRows * kBlockRows * ((size_back(1) + columns - 1) / columns * columns);
    return elements() / (size_back(1) * size_back(2)) * matrix;
  }
  int64_t last = 0;
  for (size_t axis = 0; axis < rank; ++axis) last += (sizes[axis] - 1) * strides[axis];
  return last + 1;
}

TensorView TensorView::reshaped(std::initializer_list<int64_t> new_sizes) const {
  REPRISE_CHECK(is_contiguous() && !blocked);
  TensorView view = contiguous(data, dtype, new_sizes);
  REPRISE_CHECK(view.elements() == elements());
  return view;
}

bool TensorView::lies_in_rows() const {
  if (elements() == 0) return true;
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    if (sizes[axis] != 1 && strides[axis] != strides[axis + 1] * sizes[axis + 1]) return false;
  }
  return true;
}

TensorView TensorView::as_rows() const {
  REPRISE_CHECK(lies_in_rows() && !blocked);
  TensorView view = *this;
  view.rank = 2;
  if (rank == 0) {
    view.sizes[0] = view.sizes[1] = view.strides[0] = view.strides[1] = 1;
    return view;
  }
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < rank; ++axis) rows *= sizes[axis];
  view.sizes[1] = size_back(1);
  view.strides[1] = strides[rank - 1];
  view.sizes[0] = rows;
  view.strides[0] = rank == 1 ? size_back(1) : strides[rank - 2];
  return view;
}

TensorView TensorView::split_last(int64_t count) const {
  REPRISE_CHECK(rank > 0 && rank < kMaxRank && sizes[rank - 1] % count == 0);
  TensorView view = *this;
  const int64_t size = sizes[rank - 1] / count;
  view.sizes[rank - 1] = count;
  view.strides[rank - 1] = size * strides[rank - 1];
  view.sizes[rank] = size;
  view.strides[rank] = strides[rank - 1];
  ++view.rank;
  return view;
}

TensorView TensorView::transposed(size_t axis_a, size_t axis_b) const {
  TensorView view = *this;
  std::swap(view.sizes[axis_a], view.sizes[axis_b]);
  std::swap(view.strides[axis_a], view.strides[axis_b]);
  return view;
}

TensorView TensorView::slice(size_t axis, int64_t begin, int64_t end) const {
  TensorView view = *this;
  view.sizes[axis] = end - begin;
  if (data != nullptr) view.data = static_cast<std::byte*>(data) + begin * strides[axis] * size_of(dtype);
  return view;
}

TensorView TensorView::as_16_bit() const {
  const int64_t parts = size_of(dtype) / 2;
  if (parts == 1 && is_16_bit_float(dtype)) return *this;
  REPRISE_CHECK(parts > 0 && rank > 0 && (strides[rank - 1] == 1 || sizes[rank - 1] <= 1));
  TensorView view = *this;
  view.dtype = ACL_BF16;
  for (size_t axis = 0; axis + 1 < rank; ++axis) view.strides[axis] *= parts;
  view.sizes[rank - 1] *= parts;
  view.strides[rank - 1] = 1;
  return view;
}

}  // namespace reprise::kernels::ascend
