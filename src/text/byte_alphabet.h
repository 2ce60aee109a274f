#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::text {

/// The printable character that stands for a byte in the vocabulary of a byte-level BPE (GPT-2's table): printable
/// Latin-1 characters stand for themselves, the other bytes for U+0100 and up in ascending order.
char32_t byte_to_character(uint8_t byte);

/// The byte that a character stands for, or none.
std::optional<uint8_t> character_to_byte(char32_t code_point);

/// The vocabulary's spelling of bytes.
std::string spell_bytes(std::string_view bytes);

/// The bytes that a vocabulary entry (valid UTF-8) spells, or none if it has a character outside of the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace reprise::text
