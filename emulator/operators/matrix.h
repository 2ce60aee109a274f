// The right-hand matrices of products: plain or in blocks (FRACTAL_NZ), lying as [k, n] or as [n, k].
#pragma once

#include <vector>

#include "emulator/operators/kernel_arguments.h"
#include "emulator/operators/plan.h"

namespace reprise::emulator {

/// Rows of a block of FRACTAL_NZ; its columns are 32 bytes of elements.
inline constexpr int64_t kNzRows = 16;
inline constexpr int64_t nz_columns(aclDataType dtype) { return 32 / static_cast<int64_t>(size_of(dtype)); }

/// Elements that a matrix of this height and width takes in FRACTAL_NZ.
int64_t nz_elements(int64_t height, int64_t width, aclDataType dtype);

/// Where element (row, column) of a matrix of this height lies in FRACTAL_NZ.
inline int64_t nz_index(int64_t row, int64_t column, int64_t height, int64_t columns_of_block) {
  const int64_t block_rows = (height + kNzRows - 1) / kNzRows;
  return ((column / columns_of_block * block_rows + row / kNzRows) * kNzRows + row % kNzRows) * columns_of_block +
         column % columns_of_block;
}

/// The tensor with its last two axes exchanged.
TensorArgument transposed(const TensorArgument& tensor);

/// A right-hand matrix as kernels can read it: what lies in neither order is copied. Throws when a blocked one has the
/// wrong storage.
TensorArgument prepared_matrix(Plan& plan, const TensorArgument& matrix, const char* name);

/// Reads columns of a right-hand matrix [.., k, n].
class ColumnReader {
 public:
  /// `batch`: which matrix of the leading axis, where there is one.
  ColumnReader(const HostTensor& matrix, int64_t batch);
  /// Columns [first, first + count) one after the other, k elements each.
  void read(int64_t first, int64_t count, float* to) const;
  void read(int64_t first, int64_t count, int8_t* to) const;

 private:
  template <typename T>
  void read_as(int64_t first, int64_t count, T* to) const;
  template <typename T>
  void read_lying_columns(int64_t first, int64_t count, T* to) const;
  template <typename T>
  void read_standing_columns(int64_t first, int64_t count, T* to) const;

  const HostTensor& matrix_;
  int64_t base_ = 0;
  int64_t inner_ = 0;
  int64_t outputs_ = 0;
  bool columns_lie_ = false;  ///< the k elements of a column are neighbours
};

/// How many columns kernels read at once.
inline constexpr int64_t kColumnsAtOnce = 32;

/// Calls product(n, column) for each column, read as T, of matrix `batch`.
template <typename T, typename Product>
void for_each_column(const HostTensor& matrix, int64_t batch, Product product) {
  const ColumnReader reader(matrix, batch);
  const int64_t inner = matrix->size_back(2);
  const int64_t outputs = matrix->size_back(1);
  std::vector<T> columns(static_cast<size_t>(kColumnsAtOnce * inner));
  for (int64_t first = 0; first < outputs; first += kColumnsAtOnce) {
    const int64_t count = std::min(kColumnsAtOnce, outputs - first);
    reader.read(first, count, columns.data());
    for (int64_t i = 0; i < count; ++i) product(first + i, columns.data() + i * inner);
  }
}

}  // namespace reprise::emulator
