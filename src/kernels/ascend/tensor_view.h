#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "device/ascend/interface/acl_types.h"
#include "tensor/tensor.h"

namespace reprise::kernels::ascend {

/// Weights of products as the matrix units read them: FRACTAL_NZ of the matrix [K, N] that activations are multiplied
/// by, so that rows of the weight [N, K] in whole blocks can follow one another.
inline constexpr Format kBlockedFormat{"fractal_nz"};
/// Rows of the matrix in a block; a block's columns take 32 bytes.
inline constexpr int64_t kBlockRows = 16;
inline constexpr int64_t kBlockBytes = 32;

aclDataType acl_dtype(DType dtype);
/// Bytes of one element; 0 for types that no tensor here has.
int64_t size_of(aclDataType dtype);
inline bool is_16_bit_float(aclDataType dtype) { return dtype == ACL_BF16 || dtype == ACL_FLOAT16; }

/// Device memory as an operator of aclnn sees it. The address is null where only shapes are wanted.
struct TensorView {
  static constexpr size_t kMaxRank = 6;

  void* data = nullptr;
  aclDataType dtype = ACL_DT_UNDEFINED;  ///< undefined: an absent argument
  size_t rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides{};  ///< in elements
  bool blocked = false;                     ///< the last two axes lie in FRACTAL_NZ

  /// Plain memory; absent for an absent tensor.
  static TensorView of(const Tensor& tensor);
  /// The matrix [.., K, N] of a weight [.., N, K], plain or blocked.
  static TensorView matrix_of(const Tensor& weight);
  static TensorView contiguous(void* data, aclDataType dtype, std::initializer_list<int64_t> sizes);

  bool defined() const { return dtype != ACL_DT_UNDEFINED; }
  /// Counted from the back: 1 is the last axis.
  int64_t size_back(size_t axis) const { return sizes[rank - axis]; }
  std::span<const int64_t> shape() const { return {sizes.data(), rank}; }
  int64_t elements() const;
  bool is_contiguous() const;
  /// From the first element to behind the last one, in elements; of blocked memory with its padding.
  int64_t storage_elements() const;
  size_t bytes() const { return static_cast<size_t>(storage_elements() * size_of(dtype)); }

  /// Contiguous memory with another shape.
  TensorView reshaped(std::initializer_list<int64_t> new_sizes) const;
  /// All axes but the last one as one; they must lie evenly.
  TensorView as_rows() const;
  /// Whether as_rows() can be.
  bool lies_in_rows() const;
  /// The last axis split into [count, size / count].
  TensorView split_last(int64_t count) const;
  TensorView transposed(size_t axis_a, size_t axis_b) const;
  TensorView slice(size_t axis, int64_t begin, int64_t end) const;
  /// The same bits as 16-bit floats: for operators that move rows and know no wider elements.
  TensorView as_16_bit() const;
};

}  // namespace reprise::kernels::ascend
