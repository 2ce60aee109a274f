#pragma once

#include <string>
#include <string_view>

namespace reprise::text {

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

/// A word character as Unicode's regular expressions define it (UTS 18, annex C): letters, marks, decimal and letter
/// numbers, connector punctuation, join controls.
bool is_word_character(char32_t code_point);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// Unicode normalisation of valid UTF-8, in time linear but for the sorting of runs of combining marks (n log n).
std::string normalize(std::string_view text, NormalForm form);

/// Lower case, character by character, without context (a final sigma becomes the ordinary one).
std::string to_lower(std::string_view text);

/// Upper case, character by character; a sharp s becomes SS.
std::string to_upper(std::string_view text);

/// General categories L*, Nd, Lu or Lt, and Ll.
bool is_letter(char32_t code_point);
bool is_decimal_digit(char32_t code_point);
bool is_upper_case(char32_t code_point);
bool is_lower_case(char32_t code_point);
/// As Python's str.isprintable(): no control, format, separator (but for the space), surrogate, private or unassigned
/// one.
bool is_printable(char32_t code_point);

}  // namespace reprise::text
