#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace reprise::text {

/// The tokenizer of the bundled model, loaded once.
const Tokenizer& mini_tokenizer();

/// Where Qwen3's tokenizer.json lies, if it was fetched (scripts/fetch_test_packages) or REPRISE_QWEN3_TOKENIZER names
/// it.
std::optional<std::filesystem::path> qwen3_tokenizer_path();
/// That tokenizer, loaded once; call only when the path is there.
const Tokenizer& qwen3_tokenizer();

/// Skips a test that needs Qwen3's tokenizer where that is missing.
#define REPRISE_REQUIRE_QWEN3_TOKENIZER()                                                           \
  do {                                                                                              \
    if (!::reprise::text::qwen3_tokenizer_path()) {                                                 \
      GTEST_SKIP() << "Qwen3's tokenizer.json is missing: run scripts/fetch_test_packages, or set " \
                      "REPRISE_QWEN3_TOKENIZER to its path";                                        \
    }                                                                                               \
  } while (false)

/// A line of a file of expectations.
struct Vector {
  std::string text;
  std::vector<int32_t> ids;
  std::string decoded;
};
/// Reads tests/data/text/NAME.
std::vector<Vector> read_vectors(std::string_view name);

/// tokenizer.json texts for tests: a vocabulary of the 256 bytes (id = byte) and these further entries and merges, with
/// sections that may be replaced by JSON text.
struct TokenizerJson {
  std::vector<std::pair<std::string, std::string>> merges = {};  ///< each adds the joined token to the vocabulary
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  std::string post_processor = "null";
  std::string decoder = R"({"type":"ByteLevel"})";
  std::string added_tokens = "[]";
  std::string model_keys = "";  ///< such as `"dropout":0.1,`
  std::string root_keys = "";   ///< such as `"truncation":{},`

  std::string text() const;
  Tokenizer load() const { return Tokenizer::from_json(text()); }
};

/// An `added_tokens` entry; flags is JSON of those that are true, comma separated: "special,lstrip".
std::string added_token(int id, std::string_view content, std::string_view flags = "");

/// The tokens that a text is encoded to, as tokenizer.json spells them.
std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                   const EncodeOptions& options = {});

}  // namespace reprise::text
