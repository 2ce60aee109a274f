#include "client/prompt_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random.h"

namespace reprise::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kInputLength = 0, kOutputLength = 1, kFirstToken = 2;  ///< what is drawn for a prompt
constexpr size_t kFewestWords = 16;

bool is_word(std::string_view bytes) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return bytes.size() >= 2 && bytes[0] == ' ' && std::all_of(bytes.begin() + 1, bytes.end(), is_letter);
}

/// Tokens " word" that stay one token wherever they stand.
std::vector<int32_t> word_tokens(const text::Tokenizer& tokenizer) {
  std::vector<int32_t> words;
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (!is_word(bytes) || tokenizer.is_special(id)) continue;
    const std::vector<int32_t> ids =
        tokenizer.encode(std::string(bytes) + std::string(bytes), {.literal_ranges = {}, .add_special_tokens = false});
    if (ids == std::vector<int32_t>{id, id}) words.push_back(id);
  }
  if (words.size() < kFewestWords) {
    throw Error(ErrorCode::kUnsupported, "the tokenizer has {} words that are one token, too few for random texts",
                words.size())
        .remedy("use the dataset random-ids, or give texts with --dataset-path");
  }
  return words;
}

std::optional<std::string> prompt_text_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "text"}) {
    if (json.contains(key) && json[key].is_string()) return json[key].get<std::string>();
  }
  const auto conversation = json.find("conversations");
  if (conversation == json.end() || !conversation->is_array() || conversation->empty()) return std::nullopt;
  const Json& first = conversation->front();
  if (!first.is_object() || !first.contains("value") || !first["value"].is_string()) return std::nullopt;
  return first["value"].get<std::string>();
}

std::vector<std::string> texts_of_array(const Json& json, const std::string& path) {
  std::vector<std::string> texts;
  for (const Json& item : json) {
    std::optional<std::string> text = prompt_text_of(item);
    if (!text) {
      throw Error(ErrorCode::kCorruptData, "{}: item {} is no text and no conversation", path, texts.size());
    }
    texts.push_back(std::move(*text));
  }
  return texts;
}

std::vector<std::string> texts_of_lines(std::string_view content, const std::string& path) {
  std::vector<std::string> texts;
  size_t number = 0;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::optional<std::string> text = prompt_text_of(Json::parse(line, nullptr, false));
    if (!text) {
      throw Error(ErrorCode::kCorruptData, "{}, line {}: expected {{\"prompt\": \"...\"}} or a JSON string", path,
                  number);
    }
    texts.push_back(std::move(*text));
  }
  return texts;
}

}  // namespace

void PromptLengths::check() const {
  if (input < 1) throw Error(ErrorCode::kInvalidArgument, "the input length is {}, must be at least 1", input);
  if (output < 1) throw Error(ErrorCode::kInvalidArgument, "the output length is {}, must be at least 1", output);
  if (!(range_ratio >= 0 && range_ratio <= 1)) {
    throw Error(ErrorCode::kInvalidArgument, "the range ratio is {}, must be in [0, 1]", range_ratio);
  }
}

PromptSource::PromptSource(PromptLengths lengths, uint64_t seed) : lengths_(lengths), seed_(seed) { lengths_.check(); }

uint64_t PromptSource::draw(int32_t index, uint64_t what) const {
  return random_bits(random_bits(seed_, static_cast<uint64_t>(index)), what);
}

Prompt PromptSource::lengths_of(int32_t index) const {
  const auto length = [&](int32_t most, uint64_t what) {
    const int32_t least = std::max(1, static_cast<int32_t>(most * lengths_.range_ratio));
    return least + static_cast<int32_t>(draw(index, what) % static_cast<uint64_t>(most - least + 1));
  };
  Prompt prompt;
  prompt.tokens = length(lengths_.input, kInputLength);
  prompt.output_tokens = length(lengths_.output, kOutputLength);
  return prompt;
}

std::vector<Prompt> PromptSource::random_ids(int32_t count, int32_t vocabulary) const {
  if (vocabulary < 1) throw Error(ErrorCode::kInvalidArgument, "a vocabulary of {} tokens", vocabulary);
  std::vector<Prompt> prompts;
  for (int32_t i = 0; i < count; ++i) {
    Prompt& prompt = prompts.emplace_back(lengths_of(i));
    for (int32_t j = 0; j < prompt.tokens; ++j) {
      const uint64_t bits = draw(i, kFirstToken + static_cast<uint64_t>(j));
      prompt.ids.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(vocabulary)));
    }
  }
  return prompts;
}

std::vector<Prompt> PromptSource::random_words(int32_t count, const text::Tokenizer& tokenizer) const {
  const std::vector<int32_t> words = word_tokens(tokenizer);
  std::vector<Prompt> prompts;
  for (int32_t i = 0; i < count; ++i) {
    Prompt& prompt = prompts.emplace_back(lengths_of(i));
    for (int32_t j = 0; j < prompt.tokens; ++j) {
      const uint64_t bits = draw(i, kFirstToken + static_cast<uint64_t>(j));
      prompt.text += tokenizer.token_bytes(words[bits % words.size()]);
    }
  }
  return prompts;
}

std::vector<Prompt> PromptSource::random_texts(int32_t count, const std::vector<std::string>& texts,
                                               const text::Tokenizer& tokenizer) const {
  std::vector<Prompt> prompts;
  for (int32_t i = 0; i < count; ++i) {
    Prompt& prompt = prompts.emplace_back(lengths_of(i));
    const std::vector<int32_t> ids = tokenizer.encode(texts[draw(i, kFirstToken) % texts.size()],
                                                      {.literal_ranges = {}, .add_special_tokens = false});
    if (ids.empty()) throw Error(ErrorCode::kInvalidArgument, "one of the texts is empty");
    std::vector<int32_t> cut;
    for (size_t j = 0; j < static_cast<size_t>(prompt.tokens); ++j) cut.push_back(ids[j % ids.size()]);
    prompt.text = tokenizer.decode(cut);
  }
  return prompts;
}

std::vector<std::string> read_prompt_texts(const std::string& path) {
  const std::string content = read_file(path);
  const size_t begin = content.find_first_not_of(" \t\r\n");
  const bool is_array = begin != std::string::npos && content[begin] == '[';
  const Json json = is_array ? Json::parse(content, nullptr, false) : Json();
  std::vector<std::string> texts = json.is_array() ? texts_of_array(json, path) : texts_of_lines(content, path);
  if (texts.empty()) throw Error(ErrorCode::kInvalidArgument, "{} holds no prompt", path);
  return texts;
}

}  // namespace reprise::client
