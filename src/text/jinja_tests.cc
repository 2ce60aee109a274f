#include "text/jinja_tests.h"

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace reprise::text {

namespace {

using Value = JinjaValue;

template <JinjaOperator kOperation>
bool test_compare(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  return jinja_compare(run, kOperation, value, arguments.require(run, 0, "other"));
}

int64_t tested_integer(JinjaRun& run, const Value& value) {
  const auto integer = value.as_integer();
  if (!integer) run.fail("the test needs an integer, not {}", value.type_name());
  return *integer;
}

bool test_divisible(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const int64_t divisor = tested_integer(run, arguments.require(run, 0, "num"));
  if (divisor == 0) run.fail("division by zero");
  return divisor == -1 || tested_integer(run, value) % divisor == 0;
}

bool test_same_as(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const Value& other = arguments.require(run, 0, "other");
  return value.type_name() == other.type_name() && jinja_equal(run, value, other);
}

bool test_in(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  return jinja_contains(run, arguments.require(run, 0, "seq"), value);
}

bool test_sequence(JinjaRun&, const Value& value, JinjaArguments&) {
  const JinjaList* list = value.list();
  return value.text() || value.mapping() || (list && list->kind() != JinjaList::Kind::kGenerator);
}

bool is_case(const Value& value, MarkedText (*change)(const MarkedText&)) {
  const MarkedText* text = value.text();
  return text && change(*text).bytes() == text->bytes() &&
         change(*text).bytes() != (change == upper ? lower : upper)(*text).bytes();
}

constexpr std::pair<std::string_view, JinjaTest> kTests[] = {
    {"defined", [](JinjaRun&, const Value& v, JinjaArguments&) { return !v.is_undefined(); }},
    {"undefined", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.is_undefined(); }},
    {"none", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.is_none(); }},
    {"boolean", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.boolean() != nullptr; }},
    {"true", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.boolean() && *v.boolean(); }},
    {"false", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.boolean() && !*v.boolean(); }},
    {"integer", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.integer() != nullptr; }},
    {"float", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.real() != nullptr; }},
    {"number", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.as_number().has_value(); }},
    {"string", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.text() != nullptr; }},
    {"mapping", [](JinjaRun&, const Value& v, JinjaArguments&) { return v.mapping() != nullptr; }},
    {"iterable", [](JinjaRun&, const Value& v,
                    JinjaArguments&) { return v.text() || v.list() || v.mapping() || v.is_undefined(); }},
    {"sequence", test_sequence},
    // Python's undefined can be called, to say what is undefined.
    {"callable", [](JinjaRun&, const Value& v,
                    JinjaArguments&) { return v.is_undefined() || (v.object() && v.object()->callable()); }},
    {"odd", [](JinjaRun& run, const Value& v, JinjaArguments&) { return tested_integer(run, v) % 2 != 0; }},
    {"even", [](JinjaRun& run, const Value& v, JinjaArguments&) { return tested_integer(run, v) % 2 == 0; }},
    {"divisibleby", test_divisible},
    {"upper", [](JinjaRun&, const Value& v, JinjaArguments&) { return is_case(v, upper); }},
    {"lower", [](JinjaRun&, const Value& v, JinjaArguments&) { return is_case(v, lower); }},
    {"sameas", test_same_as},
    {"in", test_in},
    {"eq", test_compare<JinjaOperator::kEqual>},
    {"equalto", test_compare<JinjaOperator::kEqual>},
    {"==", test_compare<JinjaOperator::kEqual>},
    {"ne", test_compare<JinjaOperator::kNotEqual>},
    {"!=", test_compare<JinjaOperator::kNotEqual>},
    {"lt", test_compare<JinjaOperator::kLess>},
    {"lessthan", test_compare<JinjaOperator::kLess>},
    {"<", test_compare<JinjaOperator::kLess>},
    {"le", test_compare<JinjaOperator::kLessEqual>},
    {"<=", test_compare<JinjaOperator::kLessEqual>},
    {"gt", test_compare<JinjaOperator::kGreater>},
    {"greaterthan", test_compare<JinjaOperator::kGreater>},
    {">", test_compare<JinjaOperator::kGreater>},
    {"ge", test_compare<JinjaOperator::kGreaterEqual>},
    {">=", test_compare<JinjaOperator::kGreaterEqual>},
    {"filter",
     [](JinjaRun&, const Value& v, JinjaArguments&) { return v.text() && is_jinja_filter(v.text()->bytes()); }},
    {"test", [](JinjaRun&, const Value& v,
                JinjaArguments&) { return v.text() && find_jinja_test(v.text()->bytes()) != nullptr; }},
};

}  // namespace

JinjaTest find_jinja_test(std::string_view name) {
  for (const auto& [candidate, test] : kTests) {
    if (candidate == name) return test;
  }
  return nullptr;
}

bool apply_jinja_test(JinjaRun& run, std::string_view name, const JinjaValue& value, JinjaArguments& arguments) {
  const JinjaTest test = find_jinja_test(name);
  if (!test) run.raise(ErrorCode::kUnsupported, fmt::format("the test '{}' is not supported", name));
  if (value.text()) run.step_through(value.text()->size());
  const bool holds = test(run, value, arguments);
  arguments.finish(run, fmt::format("the test '{}'", name));
  return holds;
}

}  // namespace reprise::text
