#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/generation.h"
#include "text/tokenizer.h"

namespace reprise::client {

/// Lengths of prompts and outputs in tokens: each drawn evenly from [length * range_ratio, length], so that a ratio of
/// 1 gives exactly the length, as in SGLang's bench_serving.
struct PromptLengths {
  int32_t input = 1024;
  int32_t output = 128;
  double range_ratio = 0;
  /// kInvalidArgument for what is out of range.
  void check() const;
};

/// Makes the prompts of benchmarks. Equal seeds give equal prompts, and prompt i does not depend on how many there are.
class PromptSource {
 public:
  PromptSource(PromptLengths lengths, uint64_t seed);

  /// Token ids below `vocabulary`. Neighbouring prompts share no prefix.
  std::vector<Prompt> random_ids(int32_t count, int32_t vocabulary) const;
  /// Texts of words, each of which is one token wherever it stands, so that the lengths are exact. kUnsupported for a
  /// tokenizer that has too few such words.
  std::vector<Prompt> random_words(int32_t count, const text::Tokenizer& tokenizer) const;
  /// Parts of given texts: each prompt is one of them, repeated or cut to its length.
  std::vector<Prompt> random_texts(int32_t count, const std::vector<std::string>& texts,
                                   const text::Tokenizer& tokenizer) const;

 private:
  /// A prompt without text or ids.
  Prompt lengths_of(int32_t index) const;
  uint64_t draw(int32_t index, uint64_t what) const;

  PromptLengths lengths_;
  uint64_t seed_;
};

/// The texts of a file: JSON lines with "prompt" or "text", or as strings; or ShareGPT's JSON array, of which the first
/// message of each conversation counts. kCorruptData for others, with the line.
std::vector<std::string> read_prompt_texts(const std::string& path);

}  // namespace reprise::client
