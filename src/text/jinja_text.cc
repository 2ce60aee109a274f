#include "text/jinja_text.h"

#include <string>

#include "text/unicode.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

/// Begins at the last character's first byte.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

template <typename Predicate>
size_t leading_while(std::string_view text, Predicate predicate) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Unit unit = read_utf8(text, at);
    if (!predicate(unit.code_point)) break;
    at += unit.length;
  }
  return at;
}

template <typename Predicate>
size_t trailing_while(std::string_view text, Predicate predicate) {
  size_t end = text.size();
  while (end > 0) {
    const size_t at = last_character(text.substr(0, end));
    if (!predicate(read_utf8(text, at).code_point)) break;
    end = at;
  }
  return text.size() - end;
}

bool contains(std::string_view characters, char32_t character) {
  std::string spelling;
  append_utf8(character, spelling);
  return characters.find(spelling) != std::string_view::npos;
}

}  // namespace

bool is_python_space(char32_t character) {
  return is_white_space(character) || (character >= 0x1C && character <= 0x1F);
}

size_t leading_space(std::string_view text) { return leading_while(text, is_python_space); }
size_t trailing_space(std::string_view text) { return trailing_while(text, is_python_space); }
size_t leading_of(std::string_view text, std::string_view characters) {
  return leading_while(text, [&](char32_t c) { return contains(characters, c); });
}
size_t trailing_of(std::string_view text, std::string_view characters) {
  return trailing_while(text, [&](char32_t c) { return contains(characters, c); });
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (byte & 0xC0) != 0x80;
  return count;
}

std::vector<size_t> character_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

MarkedText upper(const MarkedText& text) { return text.map_runs(to_upper); }
MarkedText lower(const MarkedText& text) {
  return text.map_runs([](std::string_view run) { return to_lower(run); });
}

MarkedText capitalize(const MarkedText& text) {
  if (text.empty()) return text;
  const size_t first = read_utf8(text.bytes(), 0).length;
  MarkedText changed = upper(text.substring(0, first));
  changed.append(lower(text.substring(first, text.size())));
  return changed;
}

MarkedText title(const MarkedText& text, bool as_python) {
  MarkedText changed;
  bool begins = true;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Unit unit = read_utf8(bytes, at);
    const std::string_view character = std::string_view(bytes).substr(at, unit.length);
    const char32_t code = unit.code_point;
    const bool separates =
        as_python ? !is_letter(code)
                  : is_python_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    changed.append(begins ? to_upper(character) : to_lower(character), text.origin_at(at));
    begins = separates;
    at += unit.length;
  }
  return changed;
}

MarkedText replace_text(const MarkedText& text, std::string_view from, const MarkedText& to, int64_t count) {
  MarkedText changed;
  const std::string& bytes = text.bytes();
  size_t kept = 0;
  if (from.empty()) {
    // Between all characters, as Python does.
    for (const size_t at : character_offsets(bytes)) {
      if (count-- == 0) break;
      changed.append(text, kept, at);
      changed.append(to);
      kept = at;
    }
  } else {
    for (size_t at = bytes.find(from); at != std::string::npos && count-- != 0; at = bytes.find(from, kept)) {
      changed.append(text, kept, at);
      changed.append(to);
      kept = at + from.size();
    }
  }
  changed.append(text, kept, bytes.size());
  return changed;
}

MarkedText strip(const MarkedText& text, const std::string* characters, bool left, bool right) {
  std::string_view bytes = text.bytes();
  const size_t begin = !left ? 0 : characters ? leading_of(bytes, *characters) : leading_space(bytes);
  bytes.remove_prefix(begin);
  const size_t cut = !right ? 0 : characters ? trailing_of(bytes, *characters) : trailing_space(bytes);
  return text.substring(begin, text.size() - cut);
}

}  // namespace reprise::text
