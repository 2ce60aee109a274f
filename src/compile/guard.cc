#include "compile/guard.h"

#include <bit>

#include "base/error.h"

namespace reprise::compile {

std::string to_text(const Quantity& quantity, std::span<const std::string> names) {
  const std::string& name = names[static_cast<size_t>(quantity.argument)];
  switch (quantity.kind) {
    case Quantity::Kind::kGiven:
      return fmt::format("{} is given", name);
    case Quantity::Kind::kRank:
      return fmt::format("{}.rank", name);
    case Quantity::Kind::kDType:
      return fmt::format("{}.dtype", name);
    case Quantity::Kind::kFormat:
      return fmt::format("{}.format", name);
    case Quantity::Kind::kSize:
      return fmt::format("{}.size({})", name, quantity.axis);
    case Quantity::Kind::kStride:
      return fmt::format("{}.stride({})", name, quantity.axis);
    case Quantity::Kind::kLength:
      return fmt::format("{}.length", name);
    case Quantity::Kind::kValue:
      return name;
  }
  return name;
}

namespace {

std::string to_text(const GuardValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return fmt::format("{}", std::get<int64_t>(value));
}

std::string to_text(const Term& term, std::span<const std::string> names) {
  if (!term.has_quantity) return fmt::format("{}", term.offset);
  std::string text = to_text(term.quantity, names);
  if (term.scale != 1) text = fmt::format("{} * {}", term.scale, text);
  if (term.offset != 0) {
    const auto offset = static_cast<uint64_t>(term.offset);
    text = fmt::format("{} {} {}", text, term.offset > 0 ? '+' : '-', term.offset > 0 ? offset : 0 - offset);
  }
  return text;
}

/// Wide enough for any scale, quantity and offset: guards are read for arguments that fit none of them, too.
__extension__ using Wide = __int128;

Wide evaluate(const Term& term, std::span<const Argument> arguments) {
  if (!term.has_quantity) return term.offset;
  return static_cast<Wide>(term.scale) * read_integer(term.quantity, arguments) + term.offset;
}

template <typename Integer>
bool compare(Relation relation, Integer left, Integer right) {
  switch (relation) {
    case Relation::kEqual:
      return left == right;
    case Relation::kNotEqual:
      return left != right;
    case Relation::kLess:
      return left < right;
    case Relation::kLessOrEqual:
      return left <= right;
  }
  return false;
}

/// Floats by their bits, as guards compare them: NaN equals itself, -0.0 is not 0.0.
bool same_value(const GuardValue& a, const GuardValue& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

bool same_term(const Term& a, const Term& b) {
  if (a.has_quantity != b.has_quantity || a.offset != b.offset) return false;
  return !a.has_quantity || (a.quantity == b.quantity && a.scale == b.scale);
}

}  // namespace

int64_t read_integer(const Quantity& quantity, std::span<const Argument> arguments) {
  const Argument& argument = arguments[static_cast<size_t>(quantity.argument)];
  const size_t axis = static_cast<size_t>(quantity.axis);
  if (const Tensor* tensor = tensor_of(argument)) {
    switch (quantity.kind) {
      case Quantity::Kind::kGiven:
        return tensor->defined() ? 1 : 0;
      case Quantity::Kind::kRank:
        return static_cast<int64_t>(tensor->rank());
      case Quantity::Kind::kSize:
        return axis < tensor->rank() ? tensor->size(axis) : 0;
      case Quantity::Kind::kStride:
        return axis < tensor->rank() ? tensor->stride(axis) : 0;
      default:
        break;
    }
  }
  if (const auto* list = std::get_if<std::span<const int32_t>>(&argument)) return static_cast<int64_t>(list->size());
  if (const auto* integer = std::get_if<int64_t>(&argument)) return *integer;
  throw Error(ErrorCode::kInternal, "a guard reads an integer of argument {}, which is none", quantity.argument);
}

GuardValue read(const Quantity& quantity, std::span<const Argument> arguments) {
  const Argument& argument = arguments[static_cast<size_t>(quantity.argument)];
  const Tensor* tensor = tensor_of(argument);
  if (quantity.kind == Quantity::Kind::kGiven) return tensor != nullptr && tensor->defined();
  if (quantity.kind == Quantity::Kind::kDType) return std::string(name_of(tensor->dtype()));
  if (quantity.kind == Quantity::Kind::kFormat) return std::string(tensor->format().name());
  if (const auto* number = std::get_if<double>(&argument)) return *number;
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  if (const auto* text = std::get_if<std::string>(&argument)) return *text;
  return read_integer(quantity, arguments);
}

std::string_view name_of(Relation relation) {
  switch (relation) {
    case Relation::kEqual:
      return "==";
    case Relation::kNotEqual:
      return "!=";
    case Relation::kLess:
      return "<";
    case Relation::kLessOrEqual:
      return "<=";
  }
  return "?";
}

bool holds(Relation relation, int64_t left, int64_t right) { return compare(relation, left, right); }

bool Guard::holds(std::span<const Argument> arguments) const {
  if (!by_value) return compare(relation, evaluate(left, arguments), evaluate(right, arguments));
  const Quantity& quantity = left.quantity;
  // Without strings, which every check would allocate anew.
  const Argument& argument = arguments[static_cast<size_t>(quantity.argument)];
  const Tensor* tensor = tensor_of(argument);
  if (quantity.kind == Quantity::Kind::kGiven) return tensor->defined() == std::get<bool>(value);
  if (quantity.kind == Quantity::Kind::kDType) return name_of(tensor->dtype()) == std::get<std::string>(value);
  if (quantity.kind == Quantity::Kind::kFormat) return tensor->format().name() == std::get<std::string>(value);
  if (const auto* text = std::get_if<std::string>(&argument)) return *text == std::get<std::string>(value);
  return same_value(read(quantity, arguments), value);
}

std::string Guard::expression(std::span<const std::string> names) const {
  if (!by_value) return fmt::format("{} {} {}", to_text(left, names), name_of(relation), to_text(right, names));
  const std::string quantity = to_text(left.quantity, names);
  if (left.quantity.kind == Quantity::Kind::kGiven) return std::get<bool>(value) ? quantity : "not " + quantity;
  return fmt::format("{} == {}", quantity, to_text(value));
}

std::string Guard::found(std::span<const Argument> arguments, std::span<const std::string> names) const {
  const auto one = [&](const Quantity& quantity) {
    if (quantity.kind == Quantity::Kind::kGiven) {
      return fmt::format("{} is {}given", names[static_cast<size_t>(quantity.argument)],
                         std::get<bool>(read(quantity, arguments)) ? "" : "not ");
    }
    return fmt::format("{} = {}", to_text(quantity, names), to_text(read(quantity, arguments)));
  };
  std::string text;
  if (left.has_quantity) text = one(left.quantity);
  if (right.has_quantity) text += (text.empty() ? "" : ", ") + one(right.quantity);
  return text;
}

std::string Guard::failure(std::span<const Argument> arguments, std::span<const std::string> names) const {
  return fmt::format("guard L{} ({}) failed: {}", line, expression(names), found(arguments, names));
}

std::string_view Guard::reason() const {
  if (from_branch) return "branch";
  if (left.has_quantity && right.has_quantity) return "relation";
  switch (left.has_quantity ? left.quantity.kind : right.quantity.kind) {
    case Quantity::Kind::kGiven:
      return "given";
    case Quantity::Kind::kRank:
      return "rank";
    case Quantity::Kind::kDType:
      return "dtype";
    case Quantity::Kind::kFormat:
      return "format";
    case Quantity::Kind::kSize:
      return "size";
    case Quantity::Kind::kStride:
      return "stride";
    case Quantity::Kind::kLength:
      return "length";
    case Quantity::Kind::kValue:
      return "value";
  }
  return "value";
}

bool operator==(const Guard& a, const Guard& b) {
  if (a.by_value != b.by_value || !same_term(a.left, b.left)) return false;
  return a.by_value ? same_value(a.value, b.value) : a.relation == b.relation && same_term(a.right, b.right);
}

std::string to_text(std::span<const Guard> guards, std::span<const std::string> names) {
  std::string text;
  for (const Guard& guard : guards) {
    text += fmt::format("{}:L{} {}\n", guard.file, guard.line, guard.expression(names));
  }
  return text;
}

const Guard* first_failure(std::span<const Guard> guards, std::span<const Argument> arguments) {
  for (const Guard& guard : guards) {
    if (!guard.holds(arguments)) return &guard;
  }
  return nullptr;
}

}  // namespace reprise::compile
