#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace reprise::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) table[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  return table;
}
constexpr std::array<char32_t, 256> kCharacters = make_characters();

/// Above the 68 shifted bytes there is nothing.
constexpr size_t kAlphabetEnd = 0x100 + 68;

constexpr std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  for (int byte = 0; byte < 256; ++byte) table[kCharacters[byte]] = static_cast<int16_t>(byte);
  return table;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kCharacters[byte]; }

std::optional<uint8_t> character_to_byte(char32_t code_point) {
  if (code_point >= kAlphabetEnd || kBytes[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[code_point]);
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (char c : bytes) append_utf8(byte_to_character(static_cast<uint8_t>(c)), out);
  return out;
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string out;
  for (size_t position = 0; position < spelling.size();) {
    const Utf8Unit unit = read_utf8(spelling, position);
    const std::optional<uint8_t> byte = character_to_byte(unit.code_point);
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    position += unit.length;
  }
  return out;
}

}  // namespace reprise::text
