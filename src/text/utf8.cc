#include "text/utf8.h"

#include <cstring>

namespace reprise::text {
namespace {

/// Length of the run of ASCII bytes at `position`, eight bytes a step.
size_t ascii_run(std::string_view text, size_t position) {
  const size_t start = position;
  while (position + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + position, 8);
    if (word & 0x8080808080808080u) break;
    position += 8;
  }
  while (position < text.size() && static_cast<uint8_t>(text[position]) < 0x80) ++position;
  return position - start;
}

/// Appends the repaired text; stops at an incomplete character at the end and returns its position.
size_t append_repaired(std::string_view text, std::string& out) {
  size_t position = 0;
  while (position < text.size()) {
    if (const size_t run = ascii_run(text, position); run > 0) {
      out.append(text.substr(position, run));
      position += run;
      continue;
    }
    const Utf8Unit unit = read_utf8(text, position);
    if (unit.kind == Utf8Unit::Kind::kIncomplete) break;
    out.append(unit.kind == Utf8Unit::Kind::kCharacter ? text.substr(position, unit.length) : kReplacementCharacter);
    position += unit.length;
  }
  return position;
}

}  // namespace

Utf8Unit read_utf8(std::string_view text, size_t position) {
  using Kind = Utf8Unit::Kind;
  const auto byte = [&](size_t offset) { return static_cast<uint8_t>(text[position + offset]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Kind::kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::kInvalid, 1, 0xFFFD};

  const uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0xFF >> (length + 1));
  for (uint8_t i = 1; i < length; ++i) {
    if (position + i >= text.size()) return {Kind::kIncomplete, i, 0xFFFD};
    if (byte(i) < low || byte(i) > high) return {Kind::kInvalid, i, 0xFFFD};
    code_point = code_point << 6 | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kCharacter, length, code_point};
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    if (const size_t run = ascii_run(text, position); run > 0) {
      position += run;
      continue;
    }
    const Utf8Unit unit = read_utf8(text, position);
    if (unit.kind != Utf8Unit::Kind::kCharacter) return false;
    position += unit.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (append_repaired(text, out) < text.size()) out.append(kReplacementCharacter);
  return out;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  if (pending_.empty()) {
    const size_t end = append_repaired(bytes, out);
    pending_.assign(bytes.substr(end));
    return;
  }
  pending_.append(bytes);
  const size_t end = append_repaired(pending_, out);
  pending_.erase(0, end);
}

void Utf8Stream::finish(std::string& out) {
  if (!pending_.empty()) out.append(kReplacementCharacter);
  pending_.clear();
}

}  // namespace reprise::text
