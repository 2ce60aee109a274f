#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pair_encoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace reprise::text {

/// What a tokenizer.json describes.
struct TokenizerParts {
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer{{}, -1};
  Vocabulary vocabulary;
  BytePairEncoder encoder;
  bool ignore_merges = false;       ///< a piece that is in the vocabulary is one token, whatever the merges say
  std::vector<int32_t> ids_before;  ///< what the post-processor puts before a text
  std::vector<int32_t> ids_after;   ///< and after it
};

/// Reads and checks a tokenizer.json: byte-level BPE with the parts that docs of Tokenizer list. Throws kCorruptData
/// for what contradicts the format or itself and kUnsupported for what is not built, both with the path of the value.
TokenizerParts parse_tokenizer_json(std::string_view text);

// The sections of the file that are pipelines of typed parts; `path` is the section's own.
Normalizer parse_normalizer(const nlohmann::json& value, std::string_view path);
PreTokenizer parse_pre_tokenizer(const nlohmann::json& value, std::string_view path);
void check_decoder(const nlohmann::json& value, std::string_view path);
/// Fills ids_before and ids_after; the vocabulary must be complete.
void parse_post_processor(const nlohmann::json& value, std::string_view path, TokenizerParts& parts);

}  // namespace reprise::text
