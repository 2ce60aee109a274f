#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::text {

/// U+FFFD in UTF-8: stands for bytes that are not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// What stands at one position of a byte string.
struct Utf8Unit {
  enum class Kind : uint8_t {
    kCharacter,   ///< a whole character
    kInvalid,     ///< bytes that no continuation can make a character
    kIncomplete,  ///< the text ends inside a character
  };
  Kind kind;
  uint8_t length;       ///< bytes: of the character, or of the maximal subpart that one U+FFFD replaces
  char32_t code_point;  ///< U+FFFD unless kind is kCharacter
};

/// Reads the unit at `position` (< text.size()). Ill-formed bytes are cut into maximal subparts as the Unicode standard
/// recommends (section 3.9) and as WHATWG decoders and Rust's from_utf8_lossy do.
Utf8Unit read_utf8(std::string_view text, size_t position);

/// Appends a Unicode scalar value.
void append_utf8(char32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view text);

/// The text with every maximal subpart of ill-formed bytes replaced by one U+FFFD.
std::string to_valid_utf8(std::string_view text);

/// Turns a stream of bytes, cut anywhere, into valid UTF-8; the joined output equals to_valid_utf8 of the joined input.
/// A byte is held back only while it may still become part of a character.
class Utf8Stream {
 public:
  /// Takes bytes and appends to `out` what has become certain.
  void push(std::string_view bytes, std::string& out);
  /// Ends the stream: an incomplete character becomes U+FFFD. The stream can be used again afterwards.
  void finish(std::string& out);
  /// Bytes held back now: 0 to 3.
  size_t pending() const { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace reprise::text
