#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja_methods.h"
#include "text/jinja_text.h"

namespace reprise::text {

namespace {

std::string_view symbol_of(JinjaOperator operation) {
  switch (operation) {
    case JinjaOperator::kAdd:
      return "+";
    case JinjaOperator::kSubtract:
      return "-";
    case JinjaOperator::kMultiply:
      return "*";
    case JinjaOperator::kDivide:
      return "/";
    case JinjaOperator::kFloorDivide:
      return "//";
    case JinjaOperator::kModulo:
      return "%";
    case JinjaOperator::kPower:
      return "**";
    case JinjaOperator::kConcatenate:
      return "~";
    default:
      return "the operator";
  }
}

void require_defined(const JinjaRun& run, const JinjaValue& value) {
  if (value.is_undefined()) run.fail("{}", value.undefined_text());
}

[[noreturn]] void overflow(const JinjaRun& run) {
  run.raise(ErrorCode::kUnsupported, "the result is beyond 64-bit integers");
}

int64_t integer_power(const JinjaRun& run, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow(run);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow(run);
  }
  return result;
}

/// Of integers; none where the result is a float.
std::optional<JinjaValue> integer_arithmetic(JinjaRun& run, JinjaOperator operation, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (operation) {
    case JinjaOperator::kAdd:
      if (__builtin_add_overflow(left, right, &result)) overflow(run);
      return result;
    case JinjaOperator::kSubtract:
      if (__builtin_sub_overflow(left, right, &result)) overflow(run);
      return result;
    case JinjaOperator::kMultiply:
      if (__builtin_mul_overflow(left, right, &result)) overflow(run);
      return result;
    case JinjaOperator::kFloorDivide:
    case JinjaOperator::kModulo: {
      if (right == 0) run.fail("division by zero");
      if (right == -1) {
        if (operation == JinjaOperator::kModulo) return int64_t{0};
        if (__builtin_sub_overflow(int64_t{0}, left, &result)) overflow(run);
        return result;
      }
      const int64_t remainder = left % right;
      const bool adjusts = remainder != 0 && (remainder < 0) != (right < 0);
      if (operation == JinjaOperator::kModulo) return adjusts ? remainder + right : remainder;
      return left / right - (adjusts ? 1 : 0);
    }
    case JinjaOperator::kPower:
      if (right >= 0) return integer_power(run, left, right);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

JinjaValue float_arithmetic(JinjaRun& run, JinjaOperator operation, double left, double right) {
  const bool divides = operation == JinjaOperator::kDivide || operation == JinjaOperator::kFloorDivide ||
                       operation == JinjaOperator::kModulo;
  if (divides && right == 0) run.fail("division by zero");
  switch (operation) {
    case JinjaOperator::kAdd:
      return left + right;
    case JinjaOperator::kSubtract:
      return left - right;
    case JinjaOperator::kMultiply:
      return left * right;
    case JinjaOperator::kDivide:
      return left / right;
    case JinjaOperator::kFloorDivide:
      return std::floor(left / right);
    case JinjaOperator::kModulo: {
      const double remainder = std::fmod(left, right);
      return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
    }
    default: {
      if (left == 0 && right < 0) run.fail("division by zero");
      const double power = std::pow(left, right);
      if (!std::isfinite(power)) run.raise(ErrorCode::kUnsupported, "the power is not a finite number");
      return power;
    }
  }
}

/// `value * count` for strings and lists; none for other types.
std::optional<JinjaValue> repeat(JinjaRun& run, const JinjaValue& value, int64_t count) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  if (const MarkedText* text = value.text()) {
    run.step(times);
    size_t size = 0;
    if (__builtin_mul_overflow(text->size(), times, &size)) size = SIZE_MAX;
    run.check_size(size);
    MarkedText repeated;
    for (size_t i = 0; i < times; ++i) repeated.append(*text);
    return make_jinja_text(run, std::move(repeated));
  }
  if (const JinjaList* list = value.list(); list && list->kind() != JinjaList::Kind::kGenerator) {
    run.step(times);
    std::vector<JinjaValue> elements;
    for (size_t i = 0; i < times; ++i) {
      run.step(list->size());
      elements.insert(elements.end(), list->elements().begin(), list->elements().end());
    }
    return make_jinja_list(run, std::move(elements), list->kind());
  }
  return std::nullopt;
}

std::optional<JinjaValue> join_sequences(JinjaRun& run, const JinjaValue& left, const JinjaValue& right) {
  if (left.text() && right.text()) {
    MarkedText joined = *left.text();
    joined.append(*right.text());
    return make_jinja_text(run, std::move(joined));
  }
  const JinjaList* first = left.list();
  const JinjaList* second = right.list();
  if (!first || !second || first->kind() != second->kind() || first->kind() == JinjaList::Kind::kGenerator) return {};
  std::vector<JinjaValue> elements = first->elements();
  elements.insert(elements.end(), second->elements().begin(), second->elements().end());
  return make_jinja_list(run, std::move(elements), first->kind());
}

/// Python's slice.indices(): from, step and number of the elements that a slice takes of `size`.
struct SliceRange {
  int64_t start;
  int64_t step;
  size_t count;
};
SliceRange slice_range(const JinjaRun& run, const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step,
                       int64_t size) {
  const auto bound = [&](const JinjaValue& value, int64_t otherwise) {
    if (value.is_none() || value.is_undefined()) return otherwise;
    const auto integer = value.as_integer();
    if (!integer) run.fail("a slice needs integers, not {}", value.type_name());
    return *integer;
  };
  const int64_t stride = bound(step, 1);
  if (stride == 0) run.fail("the step of a slice is 0");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? size : size - 1;
  const auto clamped = [&](int64_t index) {
    if (index < 0) index = index < -size ? low : index + size;
    return std::clamp(index, low, high);
  };
  const auto end_of = [&](const JinjaValue& value, int64_t otherwise) {
    return value.is_none() || value.is_undefined() ? otherwise : clamped(bound(value, 0));
  };
  const int64_t first = end_of(start, stride > 0 ? low : high);
  const int64_t last = end_of(stop, stride > 0 ? high : low);
  SliceRange range{first, stride, 0};
  if (stride > 0 && first < last) range.count = static_cast<size_t>((last - first - 1) / stride + 1);
  if (stride < 0 && first > last) {
    const uint64_t magnitude = -static_cast<uint64_t>(stride);
    range.count = static_cast<size_t>(static_cast<uint64_t>(first - last - 1) / magnitude + 1);
  }
  return range;
}

}  // namespace

JinjaValue make_jinja_text(JinjaRun& run, MarkedText text) {
  run.check_size(text.size());
  run.charge_bytes(text.size() + text.runs().size() * sizeof(MarkedText::Run));
  return JinjaValue(std::move(text));
}

JinjaValue make_jinja_list(JinjaRun& run, std::vector<JinjaValue> elements, JinjaList::Kind kind) {
  run.step(elements.size());
  run.charge_bytes(elements.size() * sizeof(JinjaValue));
  return JinjaValue(JinjaList(std::move(elements), kind));
}

JinjaValue replace_jinja_text(JinjaRun& run, const MarkedText& text, const MarkedText& from, const MarkedText& to,
                              int64_t count) {
  run.step(1 + text.size() / 16);
  // What it can grow to is known before anything is made.
  size_t places = text.size() / std::max<size_t>(from.size(), 1) + 1;
  if (count >= 0) places = std::min(places, static_cast<size_t>(count));
  if (to.size() > from.size() && places * (to.size() - from.size()) > 1 << 20) {
    places = 0;
    for (size_t at = text.bytes().find(from.bytes()); at != std::string::npos && at < text.size();
         at = text.bytes().find(from.bytes(), at + std::max<size_t>(from.size(), 1))) {
      ++places;
    }
    run.check_size(text.size() + places * (to.size() - from.size()));
  }
  return make_jinja_text(run, replace_text(text, from.bytes(), to, count));
}

JinjaValue jinja_binary(JinjaRun& run, JinjaOperator operation, const JinjaValue& left, const JinjaValue& right) {
  if (operation == JinjaOperator::kConcatenate) {
    MarkedText joined = jinja_to_text(run, left);
    joined.append(jinja_to_text(run, right));
    return make_jinja_text(run, std::move(joined));
  }
  require_defined(run, left);
  require_defined(run, right);
  const auto left_integer = left.as_integer();
  const auto right_integer = right.as_integer();
  if (left_integer && right_integer) {
    if (auto result = integer_arithmetic(run, operation, *left_integer, *right_integer)) return *result;
  }
  const auto left_number = left.as_number();
  const auto right_number = right.as_number();
  if (left_number && right_number) return float_arithmetic(run, operation, *left_number, *right_number);
  std::optional<JinjaValue> result;
  if (operation == JinjaOperator::kAdd) result = join_sequences(run, left, right);
  if (operation == JinjaOperator::kMultiply && right_integer) result = repeat(run, left, *right_integer);
  if (operation == JinjaOperator::kMultiply && left_integer) result = repeat(run, right, *left_integer);
  if (result) return *result;
  if (operation == JinjaOperator::kModulo && left.text()) {
    run.raise(ErrorCode::kUnsupported, "formatting strings with '%' is not supported");
  }
  run.fail("'{}' does not work with {} and {}", symbol_of(operation), left.type_name(), right.type_name());
}

JinjaValue jinja_unary(JinjaRun& run, JinjaOperator operation, const JinjaValue& operand) {
  if (operation == JinjaOperator::kNot) return !operand.truthy();
  require_defined(run, operand);
  if (const auto integer = operand.as_integer()) {
    if (operation == JinjaOperator::kPlus) return *integer;
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, *integer, &result)) overflow(run);
    return result;
  }
  const auto number = operand.as_number();
  if (!number) run.fail("a sign does not work with {}", operand.type_name());
  return operation == JinjaOperator::kPlus ? *number : -*number;
}

bool jinja_equal(JinjaRun& run, const JinjaValue& left, const JinjaValue& right) {
  run.step();
  const auto left_integer = left.as_integer();
  const auto right_integer = right.as_integer();
  if (left_integer && right_integer) return *left_integer == *right_integer;
  const auto left_number = left.as_number();
  const auto right_number = right.as_number();
  if (left_number && right_number) return *left_number == *right_number;
  if (left.text() && right.text()) {
    run.step_through(std::min(left.text()->size(), right.text()->size()));
    return left.text()->bytes() == right.text()->bytes();
  }
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  const JinjaList* first = left.list();
  const JinjaList* second = right.list();
  if (first && second) {
    if (first->kind() != second->kind() || first->size() != second->size()) return false;
    for (size_t i = 0; i < first->size(); ++i) {
      if (!jinja_equal(run, first->elements()[i], second->elements()[i])) return false;
    }
    return true;
  }
  if (left.mapping() && right.mapping()) {
    if (left.mapping()->size() != right.mapping()->size()) return false;
    for (const auto& [key, value] : left.mapping()->entries()) {
      const JinjaValue* other = right.mapping()->find(key);
      if (!other || !jinja_equal(run, value, *other)) return false;
    }
    return true;
  }
  return left.object() && left.object() == right.object();
}

bool jinja_less(JinjaRun& run, const JinjaValue& left, const JinjaValue& right) {
  run.step();
  require_defined(run, left);
  require_defined(run, right);
  const auto left_integer = left.as_integer();
  const auto right_integer = right.as_integer();
  if (left_integer && right_integer) return *left_integer < *right_integer;
  const auto left_number = left.as_number();
  const auto right_number = right.as_number();
  if (left_number && right_number) return *left_number < *right_number;
  // The order of UTF-8 is the order of the characters.
  if (left.text() && right.text()) {
    run.step_through(std::min(left.text()->size(), right.text()->size()));
    return left.text()->bytes() < right.text()->bytes();
  }
  const JinjaList* first = left.list();
  const JinjaList* second = right.list();
  if (!first || !second || first->kind() != second->kind()) {
    run.fail("{} and {} cannot be ordered", left.type_name(), right.type_name());
  }
  for (size_t i = 0; i < std::min(first->size(), second->size()); ++i) {
    if (jinja_equal(run, first->elements()[i], second->elements()[i])) continue;
    return jinja_less(run, first->elements()[i], second->elements()[i]);
  }
  return first->size() < second->size();
}

bool jinja_contains(JinjaRun& run, const JinjaValue& container, const JinjaValue& item) {
  if (const MarkedText* text = container.text()) {
    require_defined(run, item);
    if (!item.text()) run.fail("a string can only hold strings, not {}", item.type_name());
    run.step(1 + text->size() / 64);
    return text->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  if (item.text()) run.step_through(item.text()->size());
  if (const JinjaMapping* mapping = container.mapping()) return mapping->find(item) != nullptr;
  if (container.is_undefined()) return false;
  const JinjaList* list = container.list();
  if (!list) run.fail("'in' does not work with {}", container.type_name());
  return std::any_of(list->elements().begin(), list->elements().end(),
                     [&](const JinjaValue& element) { return jinja_equal(run, element, item); });
}

bool jinja_compare(JinjaRun& run, JinjaOperator operation, const JinjaValue& left, const JinjaValue& right) {
  switch (operation) {
    case JinjaOperator::kEqual:
      return jinja_equal(run, left, right);
    case JinjaOperator::kNotEqual:
      return !jinja_equal(run, left, right);
    case JinjaOperator::kLess:
      return jinja_less(run, left, right);
    case JinjaOperator::kGreater:
      return jinja_less(run, right, left);
    case JinjaOperator::kLessEqual:
      return jinja_less(run, left, right) || jinja_equal(run, left, right);
    case JinjaOperator::kGreaterEqual:
      return jinja_less(run, right, left) || jinja_equal(run, left, right);
    case JinjaOperator::kIn:
      return jinja_contains(run, right, left);
    case JinjaOperator::kNotIn:
      return !jinja_contains(run, right, left);
    default:
      throw Error(ErrorCode::kInternal, "not a comparison");
  }
}

JinjaValue jinja_attribute(JinjaRun& run, const JinjaValue& value, const std::string& name) {
  require_defined(run, value);
  if (const JinjaObject* object = value.object()) {
    if (auto found = object->attribute(name)) return *std::move(found);
  }
  if (has_jinja_method(value, name)) return make_jinja_method(value, name);
  if (const JinjaMapping* mapping = value.mapping()) {
    if (const JinjaValue* found = mapping->find(name)) return *found;
  }
  return JinjaValue::undefined(fmt::format("the {} has no attribute '{}'", value.type_name(), name));
}

JinjaValue jinja_item(JinjaRun& run, const JinjaValue& value, const JinjaValue& key) {
  require_defined(run, value);
  if (key.text()) run.step_through(key.text()->size());
  if (const JinjaMapping* mapping = value.mapping()) {
    if (const JinjaValue* found = mapping->find(key)) return *found;
  } else if (const auto index = key.as_integer(); index && (value.list() || value.text())) {
    const std::vector<size_t> offsets = value.text() ? character_offsets(value.text()->bytes()) : std::vector<size_t>();
    run.step(1 + offsets.size() / 64);
    const auto size = static_cast<int64_t>(value.text() ? offsets.size() - 1 : value.list()->size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) {
      return JinjaValue::undefined(fmt::format("the {} has no element {}", value.type_name(), *index));
    }
    const auto place = static_cast<size_t>(at);
    if (value.list()) return value.list()->elements()[place];
    return value.text()->substring(offsets[place], offsets[place + 1]);
  }
  if (const MarkedText* name = key.text()) return jinja_attribute(run, value, name->bytes());
  return JinjaValue::undefined(fmt::format("the {} has no such element", value.type_name()));
}

JinjaValue jinja_slice(JinjaRun& run, const JinjaValue& value, const JinjaValue& start, const JinjaValue& stop,
                       const JinjaValue& step) {
  require_defined(run, value);
  const MarkedText* text = value.text();
  const JinjaList* list = value.list();
  if (!text && !list) run.fail("{} cannot be sliced", value.type_name());
  const std::vector<size_t> offsets = text ? character_offsets(text->bytes()) : std::vector<size_t>();
  const SliceRange range =
      slice_range(run, start, stop, step, static_cast<int64_t>(text ? offsets.size() - 1 : list->size()));
  run.step(1 + offsets.size() / 64);
  if (text && range.step == 1) {
    const auto first = static_cast<size_t>(range.start);
    const size_t last = range.count > 0 ? first + range.count : first;
    return make_jinja_text(run, text->substring(offsets[first], offsets[last]));
  }
  MarkedText characters;
  std::vector<JinjaValue> elements;
  int64_t at = range.start;
  for (size_t i = 0; i < range.count; ++i) {
    const auto place = static_cast<size_t>(at);
    if (text) {
      characters.append(*text, offsets[place], offsets[place + 1]);
    } else {
      elements.push_back(list->elements()[place]);
    }
    if (i + 1 < range.count) at += range.step;
  }
  run.step(range.count);
  return text ? make_jinja_text(run, std::move(characters)) : make_jinja_list(run, std::move(elements), list->kind());
}

std::vector<JinjaValue> jinja_elements(JinjaRun& run, const JinjaValue& value) {
  std::vector<JinjaValue> elements;
  if (value.is_undefined()) return elements;
  if (const JinjaList* list = value.list()) {
    elements = list->elements();
  } else if (const JinjaMapping* mapping = value.mapping()) {
    for (const auto& [key, entry] : mapping->entries()) elements.push_back(key);
  } else if (const MarkedText* text = value.text()) {
    run.step(text->size());
    run.charge_bytes(text->size() * sizeof(JinjaValue) * 4);
    const std::vector<size_t> offsets = character_offsets(text->bytes());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) elements.push_back(text->substring(offsets[i], offsets[i + 1]));
  } else {
    run.fail("{} cannot be iterated over", value.type_name());
  }
  run.step(elements.size());
  run.charge_bytes(elements.size() * sizeof(JinjaValue));
  return elements;
}

}  // namespace reprise::text
