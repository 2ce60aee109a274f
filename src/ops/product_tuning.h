#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace reprise::ops {

/// Numbers of rows that products are tuned for together: 1, 2 to 8, 9 to 64, more.
enum class RowsClass : uint8_t { kOne, kFew, kSome, kMany };
inline constexpr RowsClass kRowsClasses[] = {RowsClass::kOne, RowsClass::kFew, RowsClass::kSome, RowsClass::kMany};
RowsClass rows_class(int64_t rows);
/// Of rows that are grouped by expert: by how many each of them has if all have as many.
RowsClass rows_class(int64_t rows, int64_t experts);
/// A number of rows that stands for its class.
int64_t typical_rows(RowsClass rows);

/// What the way of a product is chosen for: x [rows, inputs] times a weight [outputs, inputs], or rows grouped by
/// expert times a stack of them [experts, outputs, inputs].
struct ProductShape {
  DType x = DType::kF32;
  DType weight = DType::kF32;
  int64_t inputs = 0;
  int64_t outputs = 0;
  RowsClass rows = RowsClass::kOne;  ///< of experts: of each
  int64_t experts = 0;               ///< 0: no stack

  /// "bfloat16 x bfloat16, 1024 to 4096, 2-8 rows", or of a stack
  /// "bfloat16 x bfloat16, 64 experts of 1024 to 768, 2-8 rows each".
  std::string to_string() const;
  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// What suits products whose weights stay in a cache from step to step, which read them from there.
struct CachedWeights {
  size_t way = 0;
  size_t bytes = 0;  ///< the most that stay there; 0: not known
};

/// What suits single rows times int8 weights, whose blocks are short.
struct Int8Row {
  size_t way = 0;
};

/// In which of several ways a device's products go about their work, by shape. All ways give the same bits. Filled
/// before anything is captured, which keeps the way that it has found; not while products are called.
class ProductTuning {
 public:
  /// `ways`: the names of the device's ways, the usual one first.
  explicit ProductTuning(std::vector<std::string> ways, CachedWeights cached = {}, Int8Row int8_row = {});

  const std::vector<std::string>& ways() const { return ways_; }
  /// Nothing for a name that is not known.
  std::optional<size_t> find(const std::string& way) const;
  /// The default where nothing was chosen.
  size_t way_of(const ProductShape& shape) const;
  /// The way for cached weights, for products of few rows once expect_weights() has named few enough bytes; else that
  /// for single rows of int8, or 0.
  size_t default_way(const ProductShape& shape) const;
  /// How many bytes of weights a step goes through.
  void expect_weights(size_t bytes);
  void choose(const ProductShape& shape, size_t way);
  /// For measuring: every product, or every one of a shape but for its rows, goes this way, whatever was chosen.
  /// Nothing ends that.
  void force(std::optional<size_t> way, const std::optional<ProductShape>& only = std::nullopt);

 private:
  std::vector<std::string> ways_;
  CachedWeights cached_;
  Int8Row int8_row_;
  bool is_cached_ = false;
  std::map<ProductShape, size_t> chosen_;  ///< others than the default
  std::optional<size_t> forced_;
  std::optional<ProductShape> forced_shape_;  ///< nothing: all
};

}  // namespace reprise::ops
