#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dim.h"

namespace reprise {

/// Up to kMaxRank dimensions, held inline: making a shape allocates nothing.
class Shape {
 public:
  static constexpr size_t kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : Shape(std::span<const Dim>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const Dim> dims);
  explicit Shape(std::span<const int64_t> dims);

  size_t rank() const { return rank_; }
  const Dim& operator[](size_t axis) const { return dims_[axis]; }
  Dim& operator[](size_t axis) { return dims_[axis]; }
  /// The constant size of an axis; throws kGraphBreak when it is symbolic.
  int64_t size(size_t axis) const { return dims_[axis].value(); }
  const Dim& back() const { return dims_[rank_ - 1]; }
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  void push_back(Dim dim);

  bool is_constant() const;
  /// Number of elements; throws kGraphBreak when symbolic.
  int64_t elements() const;
  /// All symbols replaced by their values.
  Shape at(std::span<const int64_t> symbols) const;
  /// "[s0, 4, 64]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Dim, kMaxRank> dims_{};
  size_t rank_ = 0;
};

/// Distances between neighbours along each axis, in elements. Only the first axis of a shape may be symbolic, so
/// strides are always constants.
using Strides = std::array<int64_t, Shape::kMaxRank>;

/// Strides of a row-major tensor without gaps.
Strides contiguous_strides(const Shape& shape);

}  // namespace reprise
