#include "graph/text_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "graph/infer.h"

namespace reprise::graph {
namespace {

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The value of a hexadecimal digit, or -1.
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void TextReader::skip_blanks() {
  while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
}

size_t TextReader::place() {
  skip_blanks();
  return position_;
}

std::string TextReader::position_text(size_t place) const {
  const std::string_view before = text_.substr(0, place);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("{}:{}", line, place - start + 1);
}

void TextReader::fail_at(size_t place, std::string_view message) const {
  throw Error(ErrorCode::kCorruptData, "{}: {}", position_text(place), message);
}

void TextReader::fail_at(size_t place, const Error& error) const {
  Error positioned(ErrorCode::kCorruptData, "{}: {}", position_text(place), error.message());
  if (error.remedy_text().empty()) throw positioned;
  throw std::move(positioned).remedy(error.remedy_text());
}

bool TextReader::take(std::string_view token) {
  skip_blanks();
  if (text_.substr(position_, token.size()) != token) return false;
  position_ += token.size();
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!take(token)) fail(fmt::format("expected '{}'", token));
}

char TextReader::peek() { return at_end() ? '\0' : text_[position_]; }

std::string_view TextReader::peek_word() {
  skip_blanks();
  size_t end = position_;
  while (end < text_.size() && is_word_character(text_[end])) ++end;
  return text_.substr(position_, end - position_);
}

char TextReader::peek_behind_word() {
  size_t end = position_ + peek_word().size();
  while (end < text_.size() && is_blank(text_[end])) ++end;
  return end < text_.size() ? text_[end] : '\0';
}

bool TextReader::take_word(std::string_view word) {
  if (peek_word() != word) return false;
  position_ += word.size();
  return true;
}

std::string_view TextReader::word(std::string_view what) {
  const std::string_view result = peek_word();
  if (result.empty()) fail(fmt::format("expected {}", what));
  position_ += result.size();
  return result;
}

std::string_view TextReader::value_name() {
  expect("%");
  // The name follows at once: "% x" would not be found again by a search for "%x".
  if (position_ >= text_.size() || !is_word_character(text_[position_])) fail("expected a name behind '%'");
  return word("a name");
}

int64_t TextReader::integer(int64_t min, int64_t max) {
  const size_t start = place();
  int64_t value = 0;
  const char* first = text_.data() + start;
  const auto [end, fault] = std::from_chars(first, text_.data() + text_.size(), value);
  if (fault == std::errc::invalid_argument) fail("expected an integer");
  if (fault != std::errc() || value < min || value > max)
    fail(fmt::format("expected an integer from {} to {}", min, max));
  position_ = start + static_cast<size_t>(end - first);
  return value;
}

double TextReader::floating() {
  const size_t start = place();
  double value = 0;
  const char* first = text_.data() + start;
  const auto [end, fault] = std::from_chars(first, text_.data() + text_.size(), value);
  if (fault == std::errc::invalid_argument) fail("expected a number");
  if (fault != std::errc()) fail("expected a number that a 64-bit float can hold");
  position_ = start + static_cast<size_t>(end - first);
  return value;
}

std::string TextReader::string() {
  expect("\"");
  std::string result;
  while (position_ < text_.size() && text_[position_] != '\n') {
    const char c = text_[position_++];
    if (c == '"') return result;
    if (c != '\\') {
      result += c;
      continue;
    }
    const char escaped = position_ < text_.size() ? text_[position_++] : '\0';
    if (escaped == '"' || escaped == '\\') {
      result += escaped;
    } else if (escaped == 'n') {
      result += '\n';
    } else if (escaped == 't') {
      result += '\t';
    } else if (escaped == 'x' && position_ + 2 <= text_.size() && hex_digit(text_[position_]) >= 0 &&
               hex_digit(text_[position_ + 1]) >= 0) {
      result += static_cast<char>(hex_digit(text_[position_]) * 16 + hex_digit(text_[position_ + 1]));
      position_ += 2;
    } else {
      fail_at(position_ - 1, "expected one of \\\" \\\\ \\n \\t \\xHH in a string");
    }
  }
  fail("expected '\"' at the end of a string");
}

Dim TextReader::dim() {
  int64_t scale = 1;
  const bool symbol_first = peek() == 's';
  if (!symbol_first) {
    const size_t start = position_;
    scale = integer(-kMaxElements, kMaxElements);
    if (!take("*")) return Dim(scale);
    if (scale > kMaxDimScale || scale < -kMaxDimScale) fail_at(start, "the factor of a symbol is too large");
  }
  expect("s");
  // No sign and no blank between: "s+0" and "s 0" are no symbols.
  if (position_ >= text_.size() || !is_digit(text_[position_])) fail("expected the number of a symbol behind 's'");
  const Symbol symbol = static_cast<Symbol>(integer(0, kMaxSymbols - 1));
  int64_t offset = 0;
  if (take("+")) {
    offset = integer(0, kMaxElements);
  } else if (peek() == '-') {
    offset = integer(-kMaxElements, 0);
  }
  return Dim::symbolic(symbol, static_cast<int32_t>(scale), offset);
}

Shape TextReader::shape() {
  expect("[");
  Shape result;
  if (take("]")) return result;
  do {
    if (result.rank() == Shape::kMaxRank) fail(fmt::format("a tensor has at most {} dimensions", Shape::kMaxRank));
    result.push_back(dim());
  } while (take(","));
  expect("]");
  return result;
}

TensorMeta TextReader::meta() {
  const size_t start = place();
  const auto dtype = dtype_from_name(peek_word());
  if (!dtype) fail("expected a dtype");
  word("a dtype");
  const Shape dims = shape();
  // Strides are products of sizes: they must be known and small enough before they can be computed.
  int64_t product = 1;
  for (size_t axis = 1; axis < dims.rank(); ++axis) {
    if (!dims[axis].is_constant()) fail_at(start, "only the first axis of a tensor may be symbolic");
    const int64_t size = std::max<int64_t>(dims[axis].offset(), 1);
    if (dims[axis].offset() < 0 || size > kMaxElements / product) fail_at(start, "a tensor of an impossible size");
    product *= size;
  }
  Format format;
  if (take("@")) {
    const size_t name_place = place();
    const std::string_view name = word("a format");
    if (Format(name).name() != name) fail_at(name_place, "the name of a format has at most 15 characters");
    format = Format(name);
  }
  TensorMeta result(*dtype, dims, format);
  if (!take("{")) return result;
  for (size_t axis = 0; axis < dims.rank(); ++axis) {
    if (axis > 0) expect(",");
    result.strides[axis] = integer(0, kMaxElements);
  }
  expect("}");
  return result;
}

ops::Attribute TextReader::attribute(ops::AttributeKind kind) {
  switch (kind) {
    case ops::AttributeKind::kInt:
      return integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    case ops::AttributeKind::kFloat:
      return floating();
    case ops::AttributeKind::kBool:
      if (take_word("true")) return true;
      if (take_word("false")) return false;
      fail("expected true or false");
    case ops::AttributeKind::kDType: {
      const auto dtype = dtype_from_name(peek_word());
      if (!dtype) fail("expected a dtype");
      word("a dtype");
      return *dtype;
    }
    case ops::AttributeKind::kShape:
      return shape();
    case ops::AttributeKind::kString:
      return string();
  }
  fail("expected an attribute");
}

void TextReader::skip_empty_lines() {
  while (!at_end()) {
    if (text_[position_] == '#') {
      end_of_line();
    } else if (text_[position_] == '\n') {
      ++position_;
    } else {
      return;
    }
  }
}

std::string_view TextReader::end_of_line() {
  if (at_end() || text_[position_] == '\n') return "";
  if (text_[position_] != '#') fail("expected the end of the line");
  const size_t end = std::min(text_.find('\n', position_), text_.size());
  std::string_view comment = text_.substr(position_ + 1, end - position_ - 1);
  position_ = end;
  while (!comment.empty() && is_blank(comment.front())) comment.remove_prefix(1);
  while (!comment.empty() && is_blank(comment.back())) comment.remove_suffix(1);
  return comment;
}

bool TextReader::at_end() {
  skip_blanks();
  return position_ >= text_.size();
}

}  // namespace reprise::graph
