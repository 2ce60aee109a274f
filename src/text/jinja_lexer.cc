#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

/// Line ends become "\n", and one at the end of the template goes.
std::string normalize_line_ends(std::string_view source) {
  std::string lines;
  lines.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      lines += '\n';
    } else {
      lines += source[i];
    }
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

class JinjaLexer {
 public:
  JinjaLexer(std::string_view source, std::string_view name) : name_(name), source_(normalize_line_ends(source)) {
    if (!is_valid_utf8(source_)) throw Error(ErrorCode::kCorruptData, "{}: the template is not valid UTF-8", name_);
  }

  std::vector<JinjaToken> lex() {
    while (at_ < source_.size()) lex_text_and_tag();
    emit(JinjaToken::Kind::kEnd, {}, source_.size());
    return std::move(tokens_);
  }

 private:
  using Kind = JinjaToken::Kind;

  /// Offsets are asked for in nearly ascending order: counting goes on from the last one.
  JinjaPosition position_of(size_t offset) {
    if (offset < counted_) {
      counted_ = 0;
      counted_position_ = {};
    }
    for (; counted_ < offset; ++counted_) {
      if (source_[counted_] == '\n') {
        ++counted_position_.line;
        counted_position_.column = 1;
      } else if ((source_[counted_] & 0xC0) != 0x80) {
        ++counted_position_.column;
      }
    }
    return counted_position_;
  }
  template <typename... Args>
  [[noreturn]] void fail(size_t offset, fmt::format_string<Args...> format, Args&&... args) {
    const JinjaPosition place = position_of(offset);
    throw Error(ErrorCode::kCorruptData, "{}:{}:{}: {}", name_, place.line, place.column,
                fmt::format(format, std::forward<Args>(args)...));
  }
  JinjaToken& emit(Kind kind, std::string text, size_t offset) {
    return tokens_.emplace_back(JinjaToken{.kind = kind, .text = std::move(text), .position = position_of(offset)});
  }
  bool starts_with(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }
  void skip_space() { at_ += leading_space(std::string_view(source_).substr(at_)); }

  /// The text up to the next tag, then the tag.
  void lex_text_and_tag() {
    size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string::npos) {
        emit(Kind::kText, source_.substr(at_), at_);
        at_ = source_.size();
        return;
      }
      if (open + 1 < source_.size() && std::string_view("{%#").find(source_[open + 1]) != std::string_view::npos) break;
      ++open;
    }
    const char type = source_[open + 1];
    const char sign = sign_at(open + 2);
    emit_text(at_, open, sign, type == '{');
    at_ = open + 2 + (sign ? 1 : 0);
    if (type == '#') {
      lex_comment(open);
    } else if (type == '%' && at_raw()) {
      lex_raw(open);
    } else {
      lex_tag(open, type == '{');
    }
  }
  char sign_at(size_t offset) const {
    const char c = offset < source_.size() ? source_[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  /// The text before a tag, without the white space that the tag's sign or lstrip_blocks takes away.
  void emit_text(size_t begin, size_t end, char sign, bool before_output) {
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') {
      text.remove_suffix(trailing_space(text));
    } else if (sign != '+' && !before_output) {
      const size_t line = text.rfind('\n') + 1;  // 0 when there is none
      const bool line_begins = line > 0 || begin == 0 || source_[begin - 1] == '\n';
      if (line_begins && leading_space(text.substr(line)) == text.size() - line) text = text.substr(0, line);
    }
    if (!text.empty()) emit(Kind::kText, std::string(text), begin);
  }
  /// After a tag's end: `-` takes all white space along, trim_blocks one newline.
  void trim_after(char sign, bool trims_newline) {
    if (sign == '-') {
      skip_space();
    } else if (trims_newline && sign != '+' && starts_with("\n")) {
      ++at_;
    }
  }

  void lex_comment(size_t open) {
    const size_t close = source_.find("#}", at_);
    if (close == std::string::npos) fail(open, "the comment is not closed");
    const char sign = close > at_ ? sign_at(close - 1) : '\0';
    at_ = close + 2;
    trim_after(sign, true);
  }

  /// Whether a block tag `word` with its end stands here; `end` is then behind it, `sign` the one of its end.
  bool match_word_tag(std::string_view word, size_t begin, size_t& end, char& sign) const {
    const std::string_view source = source_;
    size_t at = begin + leading_space(source.substr(begin));
    if (!source.substr(at).starts_with(word)) return false;
    at += word.size();
    at += leading_space(source.substr(at));
    sign = sign_at(at);
    if (sign) ++at;
    if (!source.substr(at).starts_with("%}")) return false;
    end = at + 2;
    return true;
  }
  bool at_raw() const {
    size_t end;
    char sign;
    return match_word_tag("raw", at_, end, sign) && sign != '+';
  }
  void lex_raw(size_t open) {
    size_t begin = 0;
    char sign = '\0';
    match_word_tag("raw", at_, begin, sign);
    at_ = begin;
    trim_after(sign, false);
    begin = at_;
    for (size_t close = source_.find("{%", at_); close != std::string::npos; close = source_.find("{%", close + 2)) {
      const char before = sign_at(close + 2);
      char after = '\0';
      size_t end = 0;
      if (!match_word_tag("endraw", close + 2 + (before ? 1 : 0), end, after)) continue;
      emit_text(begin, close, before, false);
      at_ = end;
      trim_after(after, true);
      return;
    }
    fail(open, "the raw block is not closed");
  }

  void lex_tag(size_t open, bool output) {
    emit(output ? Kind::kOutputBegin : Kind::kBlockBegin, output ? "{{" : "{%", open);
    brackets_.clear();
    while (true) {
      skip_space();
      if (at_ >= source_.size()) fail(open, "the tag is not closed");
      if (brackets_.empty() && lex_tag_end(output)) return;
      lex_operand_or_operator();
    }
  }
  bool lex_tag_end(bool output) {
    const std::string_view end = output ? "}}" : "%}";
    char sign = sign_at(at_);
    if (output && sign == '+') sign = '\0';
    if (!std::string_view(source_).substr(at_ + (sign ? 1 : 0)).starts_with(end)) return false;
    emit(output ? Kind::kOutputEnd : Kind::kBlockEnd, std::string(end), at_);
    at_ += end.size() + (sign ? 1 : 0);
    trim_after(sign, !output);
    return true;
  }

  void lex_operand_or_operator() {
    const char c = source_[at_];
    const size_t begin = at_;
    if (is_name_start(c)) {
      while (at_ < source_.size() && is_name_part(source_[at_])) ++at_;
      emit(Kind::kName, source_.substr(begin, at_ - begin), begin);
    } else if (is_digit(c)) {
      lex_number();
    } else if (c == '"' || c == '\'') {
      lex_string(c);
    } else {
      lex_operator();
    }
  }

  /// Digits, with single underscores between them.
  size_t digits_from(size_t at, std::string_view allowed) const {
    while (at < source_.size()) {
      const bool separator = source_[at] == '_' && at + 1 < source_.size() && at > 0 && source_[at - 1] != '_';
      const char c = separator ? source_[at + 1] : source_[at];
      if (allowed.find(c) == std::string_view::npos) break;
      at += separator ? 2 : 1;
    }
    return at;
  }
  void lex_number() {
    constexpr std::string_view kDecimal = "0123456789";
    const size_t begin = at_;
    int base = 10;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char prefix = static_cast<char>(source_[at_ + 1] | 0x20);
      base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    }
    if (base != 10) {
      const size_t end =
          digits_from(at_ + 2, std::string_view("0123456789abcdefABCDEF").substr(0, base == 16 ? 22 : base));
      return emit_number(begin, begin + 2, end, base, false);
    }
    size_t end = digits_from(at_, kDecimal);
    bool real = false;
    // After a dot, as in `a.0.1`, digits are an index.
    const bool index = begin > 0 && source_[begin - 1] == '.';
    if (!index && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_from(end + 1, kDecimal);
      real = true;
    }
    if (!index && end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        end = digits_from(exponent, kDecimal);
        real = true;
      }
    }
    emit_number(begin, begin, end, 10, real);
  }
  void emit_number(size_t begin, size_t digits, size_t end, int base, bool real) {
    std::string spelling = source_.substr(digits, end - digits);
    std::erase(spelling, '_');
    at_ = end;
    JinjaToken& token = emit(real ? Kind::kFloat : Kind::kInteger, source_.substr(begin, end - begin), begin);
    const char* last = spelling.data() + spelling.size();
    const std::from_chars_result result = real ? std::from_chars(spelling.data(), last, token.number)
                                               : std::from_chars(spelling.data(), last, token.integer, base);
    if (spelling.empty() || result.ptr != last || result.ec != std::errc()) {
      fail(begin, "the number '{}' cannot be represented", token.text);
    }
  }

  void lex_string(char quote) {
    const size_t begin = at_;
    size_t end = begin + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail(begin, "the string is not closed");
    std::string text;
    for (size_t i = begin + 1; i < end;) {
      if (source_[i] != '\\') {
        text += source_[i++];
      } else {
        i = lex_escape(i, text);
      }
    }
    at_ = end + 1;
    emit(Kind::kString, std::move(text), begin);
  }
  /// Python's escapes; returns the offset behind the one at `at`.
  size_t lex_escape(size_t at, std::string& text) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[at + 1];
    if (const size_t simple = kNames.find(c); simple != std::string_view::npos) {
      text += kValues[simple];
      return at + 2;
    }
    if (c == '\n') return at + 2;
    if (c == 'N') fail(at, "the escape \\N is not supported");
    if (c >= '0' && c <= '7') {
      size_t end = at + 1;
      while (end < at + 4 && source_[end] >= '0' && source_[end] <= '7') ++end;
      append_utf8(static_cast<char32_t>(std::stoul(source_.substr(at + 1, end - at - 1), nullptr, 8)), text);
      return end;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      text += '\\';
      return at + 1;
    }
    char32_t code = hexadecimal(at, at + 2, digits);
    size_t end = at + 2 + digits;
    if (code >= 0xD800 && code < 0xDC00 && source_.compare(end, 2, "\\u") == 0) {
      const char32_t low = hexadecimal(end, end + 2, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        end += 6;
      }
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(at, "the escape is not a character");
    append_utf8(code, text);
    return end;
  }
  char32_t hexadecimal(size_t escape, size_t begin, size_t count) {
    uint32_t code = 0;
    const char* first = source_.data() + std::min(begin, source_.size());
    const char* last = source_.data() + std::min(begin + count, source_.size());
    const auto result = std::from_chars(first, last, code, 16);
    if (static_cast<size_t>(last - first) != count || result.ptr != last) fail(escape, "the escape has too few digits");
    return code;
  }

  void lex_operator() {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,";
    const size_t begin = at_;
    const auto two = std::find_if(std::begin(kTwo), std::end(kTwo), [&](std::string_view o) { return starts_with(o); });
    if (two != std::end(kTwo)) {
      at_ += 2;
      emit(Kind::kOperator, std::string(*two), begin);
      return;
    }
    const char c = source_[at_];
    if (kOne.find(c) == std::string_view::npos) {
      const Utf8Unit unit = read_utf8(source_, at_);
      fail(begin, "unexpected character '{}'", std::string_view(source_).substr(at_, unit.length));
    }
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) fail(begin, "unexpected '{}'", c);
      if (brackets_.back() != c) fail(begin, "unexpected '{}', expected '{}'", c, brackets_.back());
      brackets_.pop_back();
    }
    ++at_;
    emit(Kind::kOperator, std::string(1, c), begin);
  }

  std::string name_;
  std::string source_;
  size_t at_ = 0;
  std::string brackets_;  // the closing ones that are due
  std::vector<JinjaToken> tokens_;
  size_t counted_ = 0;
  JinjaPosition counted_position_;
};

}  // namespace

std::vector<JinjaToken> lex_jinja(std::string_view source, std::string_view name) {
  return JinjaLexer(source, name).lex();
}

}  // namespace reprise::text
