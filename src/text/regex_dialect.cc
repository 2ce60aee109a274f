#include "text/regex_dialect.h"

#include <array>
#include <cctype>

#include "base/error.h"

namespace reprise::text {
namespace {

// White_Space and its complement, as the inside of a character class.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x84\x86-\x9f\xa1-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      switch (c) {
        case '\\':
          escape(false);
          break;
        case '[':
          character_class();
          break;
        case '(':
          group();
          break;
        case '{':
          interval();
          break;
        default:
          copy(1);
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw Error(ErrorCode::kUnsupported, "{}: '{}' in the regular expression is not supported", where_, construct);
  }

  bool at(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }

  void copy(size_t count) {
    out_.append(pattern_.substr(position_, count));
    position_ += count;
  }

  void escape(bool in_class) {
    if (position_ + 1 >= pattern_.size()) refuse("\\");
    const char c = pattern_[position_ + 1];
    if (c == 's' || c == 'S') {
      const std::string_view set = c == 's' ? kSpaces : kNotSpaces;
      out_.append(in_class ? "" : "[").append(set).append(in_class ? "" : "]");
      position_ += 2;
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'x') {
      hexadecimal();
    } else if (c == 'u') {
      code_point();
    } else if (std::isalnum(static_cast<unsigned char>(c)) &&
               std::string_view("rnftdD").find(c) == std::string_view::npos) {
      refuse(pattern_.substr(position_, 2));
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // An escaped character beyond ASCII is itself; PCRE2 takes it without the backslash too.
      ++position_;
    } else {
      copy(2);
    }
  }

  /// \p{Name}, \p{^Name}, \P{Name}: general categories and scripts; PCRE2 refuses names that it does not know.
  void property() {
    const size_t end = pattern_.find('}', position_);
    if (position_ + 2 >= pattern_.size() || pattern_[position_ + 2] != '{' || end == std::string_view::npos)
      refuse("\\p");
    const std::string_view whole = pattern_.substr(position_, end + 1 - position_);
    std::string_view name = whole.substr(3, whole.size() - 4);
    if (name.starts_with('^')) name.remove_prefix(1);
    const bool category = name.size() <= 2;
    // Oniguruma has POSIX brackets and ages as properties too, in names that PCRE2 reads otherwise or not at all.
    for (std::string_view other : {"Alnum", "Alpha", "Any", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print",
                                   "Punct", "Space", "Upper", "Word", "Xan", "Xsp", "Xps", "Xwd", "Xuc"}) {
      if (name == other) refuse(whole);
    }
    bool plain = !name.empty() && std::isupper(static_cast<unsigned char>(name[0])) != 0;
    for (char c : name.substr(plain ? 1 : 0)) {
      plain = plain && (std::isalpha(static_cast<unsigned char>(c)) || (!category && c == '_'));
    }
    if (!plain) refuse(whole);
    copy(whole.size());
  }

  size_t hexadecimal_digits(size_t from) const {
    size_t count = 0;
    while (from + count < pattern_.size() && std::isxdigit(static_cast<unsigned char>(pattern_[from + count]))) ++count;
    return count;
  }

  /// \xHH (ASCII; above, Oniguruma means a byte) and \x{H...}.
  void hexadecimal() {
    if (at("\\x{")) {
      const size_t digits = hexadecimal_digits(position_ + 3);
      const size_t close = position_ + 3 + digits;
      if (digits < 1 || digits > 6 || close >= pattern_.size() || pattern_[close] != '}') refuse("\\x{");
      copy(close + 1 - position_);
      return;
    }
    if (hexadecimal_digits(position_ + 2) < 2 || pattern_[position_ + 2] > '7') refuse(pattern_.substr(position_, 4));
    copy(4);
  }

  /// \uHHHH, which PCRE2 spells \x{HHHH}.
  void code_point() {
    if (hexadecimal_digits(position_ + 2) < 4) refuse("\\u");
    out_.append("\\x{").append(pattern_.substr(position_ + 2, 4)).append("}");
    position_ += 6;
  }

  void character_class() {
    copy(1);
    if (at("^")) copy(1);
    if (at("]")) refuse("[]");
    while (true) {
      if (position_ >= pattern_.size()) refuse("[ without ]");
      // Nested sets, POSIX brackets and intersections exist only on one side.
      if (at("[")) refuse("[ inside a character class");
      if (at("&&")) refuse("&&");
      if (at("\\")) {
        escape(true);
        continue;
      }
      const bool end = at("]");
      copy(1);
      if (end) return;
    }
  }

  void group() {
    if (at("(*")) refuse("(*");
    if (!at("(?")) {
      copy(1);
      return;
    }
    for (std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (at(known)) {
        copy(known.size());
        return;
      }
    }
    // Ruby's (?i) in the middle also binds the alternatives after it; at the start there is no difference.
    if (position_ == 0 && at("(?i)")) {
      copy(4);
      return;
    }
    refuse(pattern_.substr(position_, 3));
  }

  /// {n}, {n,} and {n,m}; {,m} and a possessive sign after an interval are read differently.
  void interval() {
    const size_t end = pattern_.find('}', position_);
    if (end == std::string_view::npos) refuse("{");
    const std::string_view body = pattern_.substr(position_ + 1, end - position_ - 1);
    const bool digits_first = !body.empty() && std::isdigit(static_cast<unsigned char>(body[0]));
    if (!digits_first || body.find_first_not_of("0123456789,") != std::string_view::npos) {
      refuse(pattern_.substr(position_, end + 1 - position_));
    }
    copy(end + 1 - position_);
    if (at("+") || at("?")) refuse("a sign after an interval");
  }

  std::string_view pattern_;
  std::string_view where_;
  size_t position_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, std::string_view where) {
  return Translator(pattern, where).run();
}

}  // namespace reprise::text
