#include "text/jinja_string_methods.h"

#include <algorithm>

#include "text/jinja_operators.h"
#include "text/jinja_text.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

JinjaValue text_list(JinjaRun& run, std::vector<MarkedText> parts, JinjaList::Kind kind = JinjaList::Kind::kList) {
  std::vector<JinjaValue> values;
  run.step(parts.size());
  for (MarkedText& part : parts) values.push_back(make_jinja_text(run, std::move(part)));
  return make_jinja_list(run, std::move(values), kind);
}

template <bool kLeft, bool kRight>
JinjaValue strip_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const MarkedText* characters = arguments.take_text(run, 0, "chars");
  if (characters) run.step(text.size() * characters->size() / 64);
  return make_jinja_text(run, strip(text, characters ? &characters->bytes() : nullptr, kLeft, kRight));
}

template <MarkedText (*kChange)(const MarkedText&)>
JinjaValue change_method(JinjaRun& run, const MarkedText& text, JinjaArguments&) {
  return make_jinja_text(run, kChange(text));
}

JinjaValue title_method(JinjaRun& run, const MarkedText& text, JinjaArguments&) {
  return make_jinja_text(run, title(text, true));
}

/// At white space, at most `limit` times from the left.
std::vector<MarkedText> split_at_space(const MarkedText& text, int64_t limit) {
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.bytes();
  size_t at = leading_space(bytes);
  while (at < bytes.size()) {
    if (limit-- == 0) {
      parts.push_back(text.substring(at, bytes.size() - trailing_space(bytes)));
      break;
    }
    size_t end = at;
    while (end < bytes.size()) {
      const Utf8Unit unit = read_utf8(bytes, end);
      if (is_python_space(unit.code_point)) break;
      end += unit.length;
    }
    parts.push_back(text.substring(at, end));
    at = end + leading_space(bytes.substr(end));
  }
  return parts;
}

std::vector<MarkedText> split_at(const MarkedText& text, std::string_view separator, int64_t limit, bool from_right) {
  std::vector<MarkedText> parts;
  const std::string& bytes = text.bytes();
  if (!from_right) {
    size_t begin = 0;
    for (size_t at = bytes.find(separator); at != std::string::npos && limit-- != 0;
         at = bytes.find(separator, begin)) {
      parts.push_back(text.substring(begin, at));
      begin = at + separator.size();
    }
    parts.push_back(text.substring(begin, bytes.size()));
    return parts;
  }
  size_t end = bytes.size();
  while (end >= separator.size() && limit-- != 0) {
    const size_t at = bytes.rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    parts.push_back(text.substring(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.substring(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromRight>
JinjaValue split_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const MarkedText* separator = arguments.take_text(run, 0, "sep");
  const int64_t limit = arguments.take_integer(run, 1, "maxsplit", -1);
  run.step(1 + text.size() / 16);
  if (!separator) {
    if (kFromRight && limit >= 0) run.raise(ErrorCode::kUnsupported, "rsplit at white space takes no limit here");
    return text_list(run, split_at_space(text, limit));
  }
  if (separator->empty()) run.fail("the separator of split is empty");
  return text_list(run, split_at(text, separator->bytes(), limit, kFromRight));
}

JinjaValue splitlines_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  run.step(1 + text.size() / 16);
  return text_list(run, split_lines(text, arguments.take_flag(0, "keepends", false)));
}

template <bool kFromRight>
JinjaValue partition_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const MarkedText& separator = arguments.require_text(run, 0, "sep");
  if (separator.empty()) run.fail("the separator of partition is empty");
  const std::string& bytes = text.bytes();
  const size_t at = kFromRight ? bytes.rfind(separator.bytes()) : bytes.find(separator.bytes());
  std::vector<MarkedText> parts;
  if (at == std::string::npos) {
    parts = kFromRight ? std::vector<MarkedText>{{}, {}, text} : std::vector<MarkedText>{text, {}, {}};
  } else {
    parts = {text.substring(0, at), text.substring(at, at + separator.size()),
             text.substring(at + separator.size(), text.size())};
  }
  return text_list(run, std::move(parts), JinjaList::Kind::kTuple);
}

/// Offsets of the part that `start` and `end` (in characters) leave; begin > end when nothing is left.
std::pair<size_t, size_t> take_range(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const JinjaValue* start = arguments.take(1, "");
  const JinjaValue* end = arguments.take(2, "");
  if (!start && !end) return {0, text.size()};
  run.step(1 + text.size() / 64);
  const std::vector<size_t> offsets = character_offsets(text.bytes());
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto place = [&](const JinjaValue* value, int64_t otherwise) {
    if (!value || value->is_none()) return otherwise;
    const auto integer = value->as_integer();
    if (!integer) run.fail("a position is to be an integer, not {}", value->type_name());
    return *integer < 0 ? std::max<int64_t>(*integer + size, 0) : *integer;
  };
  const int64_t first = place(start, 0);
  const int64_t last = std::min(place(end, size), size);
  if (first > size) return {1, 0};
  return {offsets[static_cast<size_t>(first)], offsets[static_cast<size_t>(last)]};
}

template <bool kAtEnd>
JinjaValue affix_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const JinjaValue& affix = arguments.require(run, 0, "prefix");
  const auto [begin, end] = take_range(run, text, arguments);
  if (begin > end) return false;
  const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
  const auto matches = [&](const JinjaValue& candidate) {
    run.step();
    if (!candidate.text()) run.fail("startswith and endswith take strings, not {}", candidate.type_name());
    return kAtEnd ? part.ends_with(candidate.text()->bytes()) : part.starts_with(candidate.text()->bytes());
  };
  const JinjaList* several = affix.list();
  if (!several) return matches(affix);
  return std::any_of(several->elements().begin(), several->elements().end(), matches);
}

template <bool kAtEnd>
JinjaValue remove_affix_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const std::string& affix = arguments.require_text(run, 0, "prefix").bytes();
  const bool matches = kAtEnd ? text.bytes().ends_with(affix) : text.bytes().starts_with(affix);
  if (!matches) return text;
  return make_jinja_text(
      run, kAtEnd ? text.substring(0, text.size() - affix.size()) : text.substring(affix.size(), text.size()));
}

template <bool kFromRight, bool kMustFind>
JinjaValue find_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const std::string& wanted = arguments.require_text(run, 0, "sub").bytes();
  const auto [begin, end] = take_range(run, text, arguments);
  run.step(1 + text.size() / 64);
  size_t at = std::string::npos;
  if (begin <= end) {
    const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
    at = kFromRight ? part.rfind(wanted) : part.find(wanted);
  }
  if (at == std::string::npos) {
    if (kMustFind) run.fail("the substring is not found");
    return int64_t{-1};
  }
  return static_cast<int64_t>(count_characters(std::string_view(text.bytes()).substr(0, begin + at)));
}

JinjaValue count_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const std::string& wanted = arguments.require_text(run, 0, "sub").bytes();
  const auto [begin, end] = take_range(run, text, arguments);
  if (begin > end) return int64_t{0};
  const std::string_view part = std::string_view(text.bytes()).substr(begin, end - begin);
  run.step(1 + part.size() / 16);
  if (wanted.empty()) return static_cast<int64_t>(count_characters(part) + 1);
  int64_t count = 0;
  for (size_t at = part.find(wanted); at != std::string_view::npos; at = part.find(wanted, at + wanted.size())) ++count;
  return count;
}

JinjaValue replace_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const MarkedText& from = arguments.require_text(run, 0, "old");
  const MarkedText& to = arguments.require_text(run, 1, "new");
  const int64_t count = arguments.take_integer(run, 2, "count", -1);
  return replace_jinja_text(run, text, from, to, count);
}

JinjaValue join_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  MarkedText joined;
  bool first = true;
  for (const JinjaValue& element : jinja_elements(run, arguments.require(run, 0, "iterable"))) {
    if (!element.text()) run.fail("join takes strings, not {}", element.type_name());
    if (!first) joined.append(text);
    first = false;
    joined.append(*element.text());
    run.check_size(joined.size());
  }
  return make_jinja_text(run, std::move(joined));
}

/// Python's str.isX(): some character, and all of them of that kind.
template <bool (*kHolds)(char32_t)>
JinjaValue all_method(JinjaRun& run, const MarkedText& text, JinjaArguments&) {
  run.step(1 + text.size() / 16);
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Unit unit = read_utf8(bytes, at);
    if (!kHolds(unit.code_point)) return false;
    at += unit.length;
  }
  return !text.empty();
}
bool is_letter_or_digit(char32_t character) { return is_letter(character) || is_decimal_digit(character); }

/// Some cased character, and all cased ones of that case.
template <bool kUpper>
JinjaValue case_method(JinjaRun& run, const MarkedText& text, JinjaArguments&) {
  run.step(1 + text.size() / 16);
  bool found = false;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Unit unit = read_utf8(bytes, at);
    if (kUpper ? is_lower_case(unit.code_point) : is_upper_case(unit.code_point)) return false;
    found = found || (kUpper ? is_upper_case(unit.code_point) : is_lower_case(unit.code_point));
    at += unit.length;
  }
  return found;
}

enum class Side { kLeft, kRight, kBoth };

/// Fills up to a width in characters. Python's center puts the odd one left when the width is odd.
template <Side kFill>
JinjaValue justify_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const int64_t width = arguments.take_integer(run, 0, "width", 0);
  const MarkedText* given = arguments.take_text(run, 1, "fillchar");
  const MarkedText fill = given ? *given : MarkedText(" ", Origin::kTemplate);
  if (count_characters(fill.bytes()) != 1) run.fail("the fill character is to be one character");
  const auto size = static_cast<int64_t>(count_characters(text.bytes()));
  if (width <= size) return text;
  const int64_t missing = width - size;
  run.check_size(static_cast<size_t>(width));
  const int64_t left = kFill == Side::kLeft ? missing : kFill == Side::kRight ? 0 : missing / 2 + (missing & width & 1);
  MarkedText filled;
  for (int64_t i = 0; i < left; ++i) filled.append(fill);
  filled.append(text);
  for (int64_t i = left; i < missing; ++i) filled.append(fill);
  return make_jinja_text(run, std::move(filled));
}

JinjaValue zfill_method(JinjaRun& run, const MarkedText& text, JinjaArguments& arguments) {
  const int64_t width = arguments.take_integer(run, 0, "width", 0);
  const auto size = static_cast<int64_t>(count_characters(text.bytes()));
  if (width <= size) return text;
  run.check_size(static_cast<size_t>(width));
  const size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  MarkedText filled = text.substring(0, sign);
  filled.append(std::string(static_cast<size_t>(width - size), '0'), Origin::kTemplate);
  filled.append(text, sign, text.size());
  return make_jinja_text(run, std::move(filled));
}

constexpr std::pair<std::string_view, JinjaStringMethod> kStringMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"removeprefix", remove_affix_method<false>},
    {"removesuffix", remove_affix_method<true>},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count_method},
    {"replace", replace_method},
    {"join", join_method},
    {"upper", change_method<upper>},
    {"lower", change_method<lower>},
    {"casefold", change_method<lower>},
    {"capitalize", change_method<capitalize>},
    {"title", title_method},
    {"isalpha", all_method<is_letter>},
    {"isdigit", all_method<is_decimal_digit>},
    {"isdecimal", all_method<is_decimal_digit>},
    {"isnumeric", all_method<is_decimal_digit>},
    {"isalnum", all_method<is_letter_or_digit>},
    {"isspace", all_method<is_python_space>},
    {"isupper", case_method<true>},
    {"islower", case_method<false>},
    {"ljust", justify_method<Side::kRight>},
    {"rjust", justify_method<Side::kLeft>},
    {"center", justify_method<Side::kBoth>},
    {"zfill", zfill_method},
};

}  // namespace

JinjaStringMethod find_jinja_string_method(std::string_view name) {
  for (const auto& [candidate, method] : kStringMethods) {
    if (candidate == name) return method;
  }
  return nullptr;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> lines;
  const std::string& bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Unit unit = read_utf8(bytes, at);
    const char32_t c = unit.code_point;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    size_t next = at + unit.length;
    if (c == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
    if (ends) {
      lines.push_back(text.substring(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.substring(begin, bytes.size()));
  return lines;
}

}  // namespace reprise::text
