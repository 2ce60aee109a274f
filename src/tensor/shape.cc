#include "tensor/shape.h"

#include <algorithm>

#include "base/error.h"

namespace reprise {

Shape::Shape(std::span<const Dim> dims) {
  for (const Dim& dim : dims) push_back(dim);
}

Shape::Shape(std::span<const int64_t> dims) {
  for (const int64_t dim : dims) push_back(Dim(dim));
}

void Shape::push_back(Dim dim) {
  if (rank_ == kMaxRank) throw Error(ErrorCode::kUnsupported, "a tensor has at most {} dimensions", kMaxRank);
  dims_[rank_++] = dim;
}

bool Shape::is_constant() const {
  return std::all_of(begin(), end(), [](const Dim& dim) { return dim.is_constant(); });
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (const Dim& dim : *this) count *= dim.value();
  return count;
}

Shape Shape::at(std::span<const int64_t> symbols) const {
  Shape result = *this;
  for (size_t axis = 0; axis < rank_; ++axis) result.dims_[axis] = Dim(dims_[axis].at(symbols));
  return result;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (size_t axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += dims_[axis].to_string();
  }
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (size_t axis = shape.rank(); axis-- > 0;) {
    strides[axis] = step;
    if (axis > 0) step *= shape.size(axis);
  }
  return strides;
}

}  // namespace reprise
