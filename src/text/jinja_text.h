#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace reprise::text {

/// Python's view of a text: characters instead of bytes, and its idea of white space. All offsets are in bytes unless a
/// name says otherwise; texts are valid UTF-8.

/// Whether Python's str.isspace() holds: Unicode's white space and four control characters.
bool is_python_space(char32_t character);
/// Bytes of white space at the beginning, and at the end.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);
/// Bytes at the beginning, and at the end, of characters that occur in `characters`.
size_t leading_of(std::string_view text, std::string_view characters);
size_t trailing_of(std::string_view text, std::string_view characters);

size_t count_characters(std::string_view text);
/// The byte offset of every character, and of the end.
std::vector<size_t> character_offsets(std::string_view text);

MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
/// The first character in upper case, the others in lower.
MarkedText capitalize(const MarkedText& text);
/// Likewise for each word; words are separated by white space, `-`, `(`, `{`, `[` or `<` (Jinja2's filter), or by
/// anything that is not a letter (Python's str.title()).
MarkedText title(const MarkedText& text, bool as_python);

/// `count` copies of `from` (all if negative) become `to`, from the left.
MarkedText replace_text(const MarkedText& text, std::string_view from, const MarkedText& to, int64_t count);
MarkedText strip(const MarkedText& text, const std::string* characters, bool left, bool right);

}  // namespace reprise::text
