#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compile/argument.h"

namespace reprise::compile {

/// Something of an argument that a guard looks at.
struct Quantity {
  enum class Kind : uint8_t { kGiven, kRank, kDType, kFormat, kSize, kStride, kLength, kValue };
  Kind kind = Kind::kValue;
  int32_t argument = 0;
  int32_t axis = 0;  ///< of kSize and kStride
  friend bool operator==(const Quantity&, const Quantity&) = default;
};

/// "x.size(0)", with the arguments' names.
std::string to_text(const Quantity& quantity, std::span<const std::string> names);

using GuardValue = std::variant<int64_t, double, bool, std::string>;

/// What a quantity is in these arguments; 0 for sizes and strides of axes that are not there.
GuardValue read(const Quantity& quantity, std::span<const Argument> arguments);
/// The same for quantities that are integers; allocates nothing.
int64_t read_integer(const Quantity& quantity, std::span<const Argument> arguments);

enum class Relation : uint8_t { kEqual, kNotEqual, kLess, kLessOrEqual };
/// "==", "!=", "<", "<=".
std::string_view name_of(Relation relation);
bool holds(Relation relation, int64_t left, int64_t right);

/// One side of a comparison of integers: scale * quantity + offset, or the offset alone.
struct Term {
  bool has_quantity = false;
  Quantity quantity{};
  int64_t scale = 1;
  int64_t offset = 0;
};

/// An assumption under which a method was traced. Either integers are compared (`left relation right`) or a value is
/// the one that it was (`left == value`).
struct Guard {
  Term left{};
  Relation relation = Relation::kEqual;
  Term right{};
  bool by_value = false;
  GuardValue value{};
  std::string file{};  ///< where the assumption comes from: the call of compile(), or a branch of the method
  int line = 0;

  bool holds(std::span<const Argument> arguments) const;
  /// "batch == 4", with the arguments' names.
  std::string expression(std::span<const std::string> names) const;
  /// What it found instead: "batch = 6".
  std::string found(std::span<const Argument> arguments, std::span<const std::string> names) const;
  /// "guard L12 (batch == 4) failed: batch = 6".
  std::string failure(std::span<const Argument> arguments, std::span<const std::string> names) const;
  /// What kind of assumption it is, for counters: "given", "rank", "dtype", "format", "size", "stride", "length",
  /// "value", "relation" (between two quantities), "branch" (of the method).
  std::string_view reason() const;
  bool from_branch = false;

  friend bool operator==(const Guard& a, const Guard& b);
};

/// One guard a line, with the place that it comes from: "model.cc:L12 batch == 4".
std::string to_text(std::span<const Guard> guards, std::span<const std::string> names);

/// The first guard that does not hold, or null.
const Guard* first_failure(std::span<const Guard> guards, std::span<const Argument> arguments);

}  // namespace reprise::compile
