#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace reprise::text {

/// Decodes ids one at a time. What push() and finish() return, joined, equals Tokenizer::decode of all ids; each part
/// is valid UTF-8 by itself, and nothing is taken back. At most 3 bytes are held back, only while they may still become
/// one character. For one thread at a time.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = false)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  /// The text that has become certain with this id; often empty.
  std::string push(int32_t id);
  /// Ends the text: U+FFFD if it ends inside a character, else empty. Afterwards a new text may begin.
  std::string finish();
  /// True while bytes are held back.
  bool inside_character() const { return stream_.pending() > 0; }

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
};

}  // namespace reprise::text
