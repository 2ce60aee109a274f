#include "kernels/cpu/byte_rows.h"

#include <cstring>

namespace reprise::kernels::cpu {

int64_t copy_tiles(const CopyArguments& arguments) {
  int64_t rows = 1;
  for (const int64_t size : arguments.sizes) rows *= size;
  return rows;
}

void copy_bytes(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const CopyArguments*>(arguments);
  const bool dense = a.x_step == a.element_bytes && a.y_step == a.element_bytes;
  for (int64_t tile = first; tile < last; ++tile) {
    const char* x = static_cast<const char*>(a.x);
    char* y = static_cast<char*>(a.y);
    int64_t row = tile;
    for (int axis = CopyArguments::kOuterAxes; axis-- > 0;) {
      x += row % a.sizes[axis] * a.x_strides[axis];
      y += row % a.sizes[axis] * a.y_strides[axis];
      row /= a.sizes[axis];
    }
    const auto element_bytes = static_cast<size_t>(a.element_bytes);
    if (dense && a.columns > 0) {
      std::memcpy(y, x, static_cast<size_t>(a.columns) * element_bytes);
      continue;
    }
    for (int64_t i = 0; i < a.columns; ++i) std::memcpy(y + i * a.y_step, x + i * a.x_step, element_bytes);
  }
}

int64_t cat_tiles(const CatArguments& arguments) { return arguments.rows * arguments.count; }

void cat_bytes(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const CatArguments*>(arguments);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = tile / a.count;
    const int64_t index = tile % a.count;
    char* y = static_cast<char*>(a.y) + row * a.y_row_stride;
    for (int64_t before = 0; before < index; ++before) y += a.pieces[before].row_bytes;
    const CatArguments::Piece& piece = a.pieces[index];
    if (piece.row_bytes == 0) continue;
    std::memcpy(y, static_cast<const char*>(piece.x) + row * piece.row_stride, static_cast<size_t>(piece.row_bytes));
  }
}

int64_t scatter_tiles(int64_t count) { return count; }

void scatter_bytes(const void* arguments, int64_t first, int64_t last) {
  const auto& a = *static_cast<const ScatterArguments*>(arguments);
  if (a.row_bytes == 0) return;
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = a.rows[i];
    if (row < 0 || row >= a.y_rows) continue;
    std::memcpy(static_cast<char*>(a.y) + row * a.row_bytes, static_cast<const char*>(a.x) + i * a.row_bytes,
                static_cast<size_t>(a.row_bytes));
  }
}

}  // namespace reprise::kernels::cpu
