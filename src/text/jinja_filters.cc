#include "text/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_json.h"
#include "text/jinja_operators.h"
#include "text/jinja_string_methods.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

using Value = JinjaValue;

template <MarkedText (*kChange)(const MarkedText&)>
Value filter_change(JinjaRun& run, const Value& value, JinjaArguments&) {
  return make_jinja_text(run, kChange(jinja_to_text(run, value)));
}

Value filter_title(JinjaRun& run, const Value& value, JinjaArguments&) {
  return make_jinja_text(run, title(jinja_to_text(run, value), false));
}

Value filter_string(JinjaRun& run, const Value& value, JinjaArguments&) {
  return make_jinja_text(run, jinja_to_text(run, value));
}

Value filter_trim(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const MarkedText* characters = arguments.take_text(run, 0, "chars");
  return make_jinja_text(run,
                         strip(jinja_to_text(run, value), characters ? &characters->bytes() : nullptr, true, true));
}

Value filter_replace(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const MarkedText from = jinja_to_text(run, arguments.require(run, 0, "old"));
  const MarkedText to = jinja_to_text(run, arguments.require(run, 1, "new"));
  return replace_jinja_text(run, jinja_to_text(run, value), from, to, arguments.take_integer(run, 2, "count", -1));
}

Value filter_escape(JinjaRun& run, const Value& value, JinjaArguments&) {
  const MarkedText text = jinja_to_text(run, value);
  return make_jinja_text(run, text.map_runs([](std::string_view part) {
    std::string escaped;
    for (const char c : part) {
      switch (c) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        default:
          escaped += c;
      }
    }
    return escaped;
  }));
}

Value filter_tojson(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  JinjaJsonStyle style;
  style.ensure_ascii = arguments.take_flag(0, "ensure_ascii", false);
  style.indent = static_cast<int>(std::clamp<int64_t>(arguments.take_integer(run, 1, "indent", -1), -1, 64));
  if (style.indent >= 0) style.item_separator.resize(1);  // the comma alone
  const Value* separators = arguments.take(2, "separators");
  if (separators && !separators->is_none()) {
    const std::vector<Value> pair = jinja_elements(run, *separators);
    if (pair.size() != 2 || !pair[0].text() || !pair[1].text()) run.fail("separators are to be two strings");
    style.item_separator = pair[0].text()->bytes();
    style.key_separator = pair[1].text()->bytes();
  }
  style.sort_keys = arguments.take_flag(3, "sort_keys", false);
  MarkedText json;
  append_json(run, value, style, json);
  return make_jinja_text(run, std::move(json));
}

Value filter_indent(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const Value* width = arguments.take(0, "width");
  const bool first = arguments.take_flag(1, "first", false);
  const bool blank = arguments.take_flag(2, "blank", false);
  MarkedText indention;
  if (width && width->text()) {
    indention = *width->text();
  } else {
    const int64_t spaces = width ? width->as_integer().value_or(4) : 4;
    run.check_size(static_cast<size_t>(std::max<int64_t>(spaces, 0)));
    indention.append(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '), Origin::kTemplate);
  }
  // Jinja2 adds a newline before it splits, so that one at the end stays.
  MarkedText text = jinja_to_text(run, value);
  text.append("\n", Origin::kTemplate);
  const std::vector<MarkedText> lines = split_lines(text, false);
  run.step(lines.size());
  MarkedText indented;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) indented.append("\n", Origin::kTemplate);
    if (i > 0 ? blank || !lines[i].empty() : first) indented.append(indention);
    indented.append(lines[i]);
    run.check_size(indented.size());
  }
  return make_jinja_text(run, std::move(indented));
}

/// A Python spelling of a number: white space around it, underscores between digits.
std::string number_spelling(const MarkedText& text) {
  std::string spelling = strip(text, nullptr, true, true).bytes();
  std::erase(spelling, '_');
  if (spelling.starts_with('+')) spelling.erase(0, 1);
  return spelling;
}

std::optional<double> parse_float(const MarkedText& text) {
  const std::string spelling = number_spelling(text);
  double number = 0;
  const char* end = spelling.data() + spelling.size();
  const auto result = std::from_chars(spelling.data(), end, number);
  if (spelling.empty() || result.ptr != end || result.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> truncated(const JinjaRun& run, double number) {
  if (std::isnan(number)) return std::nullopt;
  if (std::abs(number) >= 0x1p63) run.raise(ErrorCode::kUnsupported, "the result is beyond 64-bit integers");
  return static_cast<int64_t>(number);
}

Value filter_int(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const Value* otherwise = arguments.take(0, "default");
  const auto base = static_cast<int>(std::clamp<int64_t>(arguments.take_integer(run, 1, "base", 10), 2, 36));
  std::optional<int64_t> integer = value.as_integer();
  if (!integer && value.real()) integer = truncated(run, *value.real());
  if (const MarkedText* text = value.text()) {
    const std::string spelling = number_spelling(*text);
    int64_t parsed = 0;
    const char* end = spelling.data() + spelling.size();
    const auto result = std::from_chars(spelling.data(), end, parsed, base);
    if (!spelling.empty() && result.ptr == end && result.ec == std::errc()) {
      integer = parsed;
    } else if (const auto real = parse_float(*text); real && std::isfinite(*real)) {
      integer = truncated(run, *real);
    }
  }
  if (integer) return *integer;
  return otherwise ? *otherwise : Value(int64_t{0});
}

Value filter_float(JinjaRun&, const Value& value, JinjaArguments& arguments) {
  const Value* otherwise = arguments.take(0, "default");
  if (const auto number = value.as_number()) return *number;
  if (value.text()) {
    if (const auto number = parse_float(*value.text())) return *number;
  }
  return otherwise ? *otherwise : Value(0.0);
}

Value filter_abs(JinjaRun& run, const Value& value, JinjaArguments&) {
  if (const auto integer = value.as_integer()) {
    return *integer < 0 ? jinja_unary(run, JinjaOperator::kNegate, *integer) : Value(*integer);
  }
  const auto number = value.as_number();
  if (!number) run.fail("abs needs a number, not {}", value.type_name());
  return std::abs(*number);
}

Value filter_round(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const int64_t precision = arguments.take_integer(run, 0, "precision", 0);
  const MarkedText* given = arguments.take_text(run, 1, "method");
  const std::string method = given ? given->bytes() : "common";
  const auto number = value.as_number();
  if (!number) run.fail("round needs a number, not {}", value.type_name());
  if (precision < -300 || precision > 300) run.fail("the precision {} is out of range", precision);
  if (method == "common") {
    if (!value.real()) {
      // Python's round() leaves integers as they are for a precision of 0 and more.
      if (precision >= 0) return *value.as_integer();
      run.raise(ErrorCode::kUnsupported, "rounding integers to tens is not supported");
    }
    if (precision < 0 || !std::isfinite(*number)) {
      const double scale = std::pow(10.0, static_cast<double>(-precision));
      return std::isfinite(*number) ? std::nearbyint(*number / scale) * scale : *number;
    }
    // Spelled to that many places, which rounds the exact value, half to even, as Python does.
    double rounded = 0;
    const std::string spelling = fmt::format("{:.{}f}", *number, static_cast<int>(precision));
    std::from_chars(spelling.data(), spelling.data() + spelling.size(), rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(*number * scale) / scale;
  if (method == "floor") return std::floor(*number * scale) / scale;
  run.fail("round knows the methods common, ceil and floor, not '{}'", method);
}

Value filter_wordcount(JinjaRun& run, const Value& value, JinjaArguments&) {
  const MarkedText text = jinja_to_text(run, value);
  run.step(1 + text.size() / 16);
  int64_t words = 0;
  std::string_view rest = text.bytes();
  for (rest.remove_prefix(leading_space(rest)); !rest.empty(); rest.remove_prefix(leading_space(rest))) {
    ++words;
    size_t end = 0;
    while (end < rest.size() && !is_python_space(read_utf8(rest, end).code_point)) end += read_utf8(rest, end).length;
    rest.remove_prefix(end);
  }
  return words;
}

Value filter_center(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  JinjaArguments width;
  width.positional.emplace_back(arguments.take_integer(run, 0, "width", 80));
  const MarkedText text = jinja_to_text(run, value);
  return find_jinja_string_method("center")(run, text, width);
}

constexpr std::pair<std::string_view, JinjaFilter> kTextFilters[] = {
    {"upper", filter_change<upper>},
    {"lower", filter_change<lower>},
    {"capitalize", filter_change<capitalize>},
    {"title", filter_title},
    {"string", filter_string},
    // Nothing is escaped on the way to a prompt: marking a text as safe changes nothing.
    {"safe", filter_string},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"tojson", filter_tojson},
    {"indent", filter_indent},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
    {"wordcount", filter_wordcount},
    {"center", filter_center},
};

}  // namespace

JinjaFilter find_jinja_text_filter(std::string_view name) {
  for (const auto& [candidate, filter] : kTextFilters) {
    if (candidate == name) return filter;
  }
  return nullptr;
}

bool is_jinja_filter(std::string_view name) { return find_jinja_text_filter(name) || find_jinja_sequence_filter(name); }

JinjaValue apply_jinja_filter(JinjaRun& run, std::string_view name, const JinjaValue& value,
                              JinjaArguments& arguments) {
  JinjaFilter filter = find_jinja_text_filter(name);
  if (!filter) filter = find_jinja_sequence_filter(name);
  if (!filter) run.raise(ErrorCode::kUnsupported, fmt::format("the filter '{}' is not supported", name));
  if (value.text()) run.step_through(value.text()->size());
  Value result = filter(run, value, arguments);
  arguments.finish(run, fmt::format("the filter '{}'", name));
  return result;
}

}  // namespace reprise::text
