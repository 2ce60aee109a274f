#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

/// True when the text is surely normalised already: no character below U+0300 changes under NFC, no ASCII one under
/// any.
bool surely_normalized(std::string_view text, NormalForm form) {
  // U+0300 is CC 80.
  const uint8_t limit = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [limit](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < limit;
  });
}

void append_decomposed(char32_t code_point, utf8proc_option_t options, std::vector<int32_t>& out) {
  // The longest decomposition (of U+FDFA, under compatibility) has 18 characters.
  constexpr size_t kLongest = 32;
  if (code_point < 0x80) {
    out.push_back(static_cast<int32_t>(code_point));
    return;
  }
  const size_t start = out.size();
  out.resize(start + kLongest);
  const auto count = utf8proc_decompose_char(static_cast<int32_t>(code_point), out.data() + start, kLongest,
                                             static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE), nullptr);
  REPRISE_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kLongest));
  out.resize(start + static_cast<size_t>(count));
}

int combining_class(int32_t code_point) {
  // Nothing below U+0300 combines.
  return code_point < 0x300 ? 0 : utf8proc_get_property(code_point)->combining_class;
}

/// Sorts each run of combining marks by class, as the standard's canonical ordering asks. utf8proc sorts by exchanging
/// neighbours, which is quadratic on a long run.
void order_marks(std::vector<int32_t>& characters) {
  for (size_t begin = 0; begin < characters.size();) {
    if (combining_class(characters[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < characters.size() && combining_class(characters[end]) != 0) ++end;
    std::stable_sort(characters.begin() + static_cast<ptrdiff_t>(begin),
                     characters.begin() + static_cast<ptrdiff_t>(end),
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Join controls, and the circled and squared letters that are alphabetic symbols.
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  }
}

std::string normalize(std::string_view text, NormalForm form) {
  if (surely_normalized(text, form)) return std::string(text);
  const utf8proc_option_t options = options_of(form);
  std::vector<int32_t> characters;
  characters.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Unit unit = read_utf8(text, position);
    append_decomposed(unit.code_point, options, characters);
    position += unit.length;
  }
  order_marks(characters);
  auto count = static_cast<utf8proc_ssize_t>(characters.size());
  if (options & UTF8PROC_COMPOSE) count = utf8proc_normalize_utf32(characters.data(), count, options);
  REPRISE_CHECK(count >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(static_cast<char32_t>(characters[static_cast<size_t>(i)]), out);
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Unit unit = read_utf8(text, position);
    position += unit.length;
    // The one character whose lower case is two characters.
    if (unit.code_point == 0x130) {
      out.append("i\xCC\x87");
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(unit.code_point))), out);
    }
  }
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Unit unit = read_utf8(text, position);
    position += unit.length;
    if (unit.code_point == 0xDF) {
      out.append("SS");
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(unit.code_point))), out);
    }
  }
  return out;
}

bool is_letter(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal_digit(char32_t c) { return utf8proc_category(static_cast<int32_t>(c)) == UTF8PROC_CATEGORY_ND; }

bool is_upper_case(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool is_lower_case(char32_t c) { return utf8proc_category(static_cast<int32_t>(c)) == UTF8PROC_CATEGORY_LL; }

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<int32_t>(c));
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

}  // namespace reprise::text
