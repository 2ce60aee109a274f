#include "ops/product_tuning.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::ops {

RowsClass rows_class(int64_t rows) {
  return rows <= 1 ? RowsClass::kOne : rows <= 8 ? RowsClass::kFew : rows <= 64 ? RowsClass::kSome : RowsClass::kMany;
}

RowsClass rows_class(int64_t rows, int64_t experts) {
  return rows_class(experts > 0 ? (rows + experts - 1) / experts : rows);
}

int64_t typical_rows(RowsClass rows) {
  constexpr int64_t kTypical[] = {1, 8, 32, 128};
  return kTypical[static_cast<size_t>(rows)];
}

std::string ProductShape::to_string() const {
  constexpr const char* kRows[] = {"1 row", "2-8 rows", "9-64 rows", "more rows"};
  return fmt::format("{} x {}, {}{} to {}, {}{}", name_of(x), name_of(weight),
                     experts > 0 ? fmt::format("{} experts of ", experts) : "", inputs, outputs,
                     kRows[static_cast<size_t>(rows)], experts > 0 ? " each" : "");
}

ProductTuning::ProductTuning(std::vector<std::string> ways, CachedWeights cached, Int8Row int8_row)
    : ways_(std::move(ways)), cached_(cached), int8_row_(int8_row) {
  REPRISE_CHECK(cached_.way < ways_.size() && int8_row_.way < ways_.size());
}

void ProductTuning::expect_weights(size_t bytes) { is_cached_ = bytes <= cached_.bytes; }

std::optional<size_t> ProductTuning::find(const std::string& way) const {
  const auto place = std::find(ways_.begin(), ways_.end(), way);
  if (place == ways_.end()) return std::nullopt;
  return static_cast<size_t>(place - ways_.begin());
}

void ProductTuning::force(std::optional<size_t> way, const std::optional<ProductShape>& only) {
  REPRISE_CHECK(!way || *way < ways_.size());
  forced_ = way;
  forced_shape_ = only;
}

size_t ProductTuning::way_of(const ProductShape& shape) const {
  if (forced_) {
    ProductShape any_rows = shape;
    if (forced_shape_) any_rows.rows = forced_shape_->rows;
    if (!forced_shape_ || any_rows == *forced_shape_) return *forced_;
  }
  const auto place = chosen_.find(shape);
  return place == chosen_.end() ? default_way(shape) : place->second;
}

size_t ProductTuning::default_way(const ProductShape& shape) const {
  // More rows take longer to multiply than any cache takes to read.
  if (is_cached_ && shape.rows <= RowsClass::kFew) return cached_.way;
  return shape.weight == DType::kI8 && shape.rows == RowsClass::kOne ? int8_row_.way : 0;
}

void ProductTuning::choose(const ProductShape& shape, size_t way) {
  REPRISE_CHECK(way < ways_.size());
  if (way == default_way(shape)) {
    chosen_.erase(shape);
  } else {
    chosen_[shape] = way;
  }
}

}  // namespace reprise::ops
