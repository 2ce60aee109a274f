#include "emulator/operators/matrix.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

bool columns_lie(const TensorArgument& matrix) { return matrix.stride_back(1) != 1 && matrix.stride_back(2) == 1; }

int64_t batches_of(const TensorArgument& matrix) {
  int64_t batches = 1;
  for (int32_t axis = 0; axis + 2 < matrix.rank; ++axis) batches *= matrix.dims[static_cast<size_t>(axis)];
  return batches;
}

void convert(const HostTensor& from, int64_t element, int64_t count, float* to) {
  to_floats(from.at(element), from->dtype, count, to);
}

void convert(const HostTensor& from, int64_t element, int64_t count, int8_t* to) {
  std::memcpy(to, from.at(element), static_cast<size_t>(count));
}

}  // namespace

int64_t nz_elements(int64_t height, int64_t width, aclDataType dtype) {
  const int64_t columns = nz_columns(dtype);
  return (height + kNzRows - 1) / kNzRows * kNzRows * ((width + columns - 1) / columns * columns);
}

TensorArgument transposed(const TensorArgument& tensor) {
  TensorArgument result = tensor;
  const auto last = static_cast<size_t>(tensor.rank - 1);
  std::swap(result.dims[last], result.dims[last - 1]);
  std::swap(result.strides[last], result.strides[last - 1]);
  return result;
}

TensorArgument prepared_matrix(Plan& plan, const TensorArgument& matrix, const char* name) {
  if (!matrix.is_nz()) {
    const bool lies = matrix.stride_back(1) == 1 || matrix.stride_back(2) == 1 || matrix.elements() == 0;
    return lies ? matrix : plan.contiguous(matrix);
  }
  const bool lies = columns_lie(matrix);
  const int64_t expected =
      batches_of(matrix) * nz_elements(matrix.size_back(lies ? 1 : 2), matrix.size_back(lies ? 2 : 1), matrix.dtype);
  require(matrix.storage_elements == expected, "{} in FRACTAL_NZ has {} elements of storage, expected {}", name,
          matrix.storage_elements, expected);
  return matrix;
}

ColumnReader::ColumnReader(const HostTensor& matrix, int64_t batch)
    : matrix_(matrix),
      inner_(matrix->size_back(2)),
      outputs_(matrix->size_back(1)),
      columns_lie_(columns_lie(*matrix)) {
  if (matrix->rank < 3) return;
  base_ = matrix->is_nz() ? batch * (matrix->storage_elements / batches_of(*matrix)) : batch * matrix->stride_back(3);
}

template <typename T>
void ColumnReader::read_lying_columns(int64_t first, int64_t count, T* to) const {
  const int64_t chunk = nz_columns(matrix_->dtype);
  for (int64_t n = first; n < first + count; ++n, to += inner_) {
    if (!matrix_->is_nz()) {
      convert(matrix_, base_ + n * matrix_->stride_back(1), inner_, to);
      continue;
    }
    for (int64_t k = 0; k < inner_; k += chunk) {
      convert(matrix_, base_ + nz_index(n, k, outputs_, chunk), std::min(chunk, inner_ - k), to + k);
    }
  }
}

template <typename T>
void ColumnReader::read_standing_columns(int64_t first, int64_t count, T* to) const {
  const int64_t chunk = matrix_->is_nz() ? nz_columns(matrix_->dtype) : kColumnsAtOnce;
  T row[kColumnsAtOnce];
  for (int64_t n = first; n < first + count; n += chunk) {
    const int64_t width = std::min(chunk, first + count - n);
    for (int64_t k = 0; k < inner_; ++k) {
      const int64_t at = matrix_->is_nz() ? nz_index(k, n, inner_, chunk) : k * matrix_->stride_back(2) + n;
      convert(matrix_, base_ + at, width, row);
      for (int64_t i = 0; i < width; ++i) to[(n - first + i) * inner_ + k] = row[i];
    }
  }
}

template <typename T>
void ColumnReader::read_as(int64_t first, int64_t count, T* to) const {
  if (columns_lie_) {
    read_lying_columns(first, count, to);
  } else {
    read_standing_columns(first, count, to);
  }
}

void ColumnReader::read(int64_t first, int64_t count, float* to) const { read_as(first, count, to); }
void ColumnReader::read(int64_t first, int64_t count, int8_t* to) const { read_as(first, count, to); }

}  // namespace reprise::emulator
