#pragma once

#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

// Moves of whole rows of bytes: the same for every element and instruction set.

/// y = x for tensors of one shape and any strides, seen as rows of columns: up to four outer axes make the rows.
struct CopyArguments {
  static constexpr int kOuterAxes = 4;
  const void* x;
  void* y;
  int64_t sizes[kOuterAxes];      ///< outermost first; 1 where there are fewer axes
  int64_t x_strides[kOuterAxes];  ///< bytes, here and below
  int64_t y_strides[kOuterAxes];
  int64_t columns;
  int64_t x_step;
  int64_t y_step;
  int64_t element_bytes;
};
/// A tile is one row.
int64_t copy_tiles(const CopyArguments& arguments);
void copy_bytes(const void* arguments, int64_t first, int64_t last);

/// Most pieces of one launch of cat.
inline constexpr int64_t kCatPieces = 8;

/// Row i of y is row i of each of the pieces, one behind the other.
struct CatArguments {
  struct Piece {
    const void* x;
    int64_t row_bytes;
    int64_t row_stride;  ///< bytes from row to row
  };
  Piece pieces[kCatPieces];
  void* y;
  int64_t count;  ///< of pieces
  int64_t rows;
  int64_t y_row_stride;  ///< bytes
};
/// A tile is one row of one piece.
int64_t cat_tiles(const CatArguments& arguments);
void cat_bytes(const void* arguments, int64_t first, int64_t last);

/// y[rows[i]] = x[i]; rows outside of y are skipped. If two name one row, which one stays is not defined.
struct ScatterArguments {
  const void* x;  ///< [count] rows
  const int32_t* rows;
  void* y;  ///< [y_rows] rows
  int64_t count;
  int64_t y_rows;
  int64_t row_bytes;
};
/// A tile is one row of x.
int64_t scatter_tiles(int64_t count);
void scatter_bytes(const void* arguments, int64_t first, int64_t last);

}  // namespace reprise::kernels::cpu
