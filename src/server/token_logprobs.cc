#include "server/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace reprise::server {
namespace {

Json token_bytes(const text::Tokenizer& tokenizer, int32_t token) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.token_bytes(token)) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Json entry(const text::Tokenizer& tokenizer, const engine::TokenLogprob& token) {
  return {{"token", token_text(tokenizer, token.token)},
          {"logprob", finite_logprob(token.logprob)},
          {"bytes", token_bytes(tokenizer, token.token)}};
}

/// Characters that begin in these bytes.
int64_t characters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; });
}

}  // namespace

double finite_logprob(float value) {
  return std::isfinite(value) ? std::max<double>(value, kLeastLogprob) : kLeastLogprob;
}

std::string token_text(const text::Tokenizer& tokenizer, int32_t token) { return tokenizer.decode({&token, 1}); }

Json chat_logprob(const text::Tokenizer& tokenizer, const engine::PositionLogprobs& position) {
  Json json = entry(tokenizer, position.chosen);
  Json& top = json["top_logprobs"] = Json::array();
  for (const engine::TokenLogprob& alternative : position.alternatives) top.push_back(entry(tokenizer, alternative));
  return json;
}

void CompletionLogprobs::add(const text::Tokenizer& tokenizer, int32_t token,
                             const engine::PositionLogprobs* position) {
  tokens_ += ',';
  append_json_string(tokens_, token_text(tokenizer, token));
  offsets_ += fmt::format(",{}", offset_);
  offset_ += characters(tokenizer.token_bytes(token));
  if (position == nullptr) {
    logprobs_ += ",null";
    top_ += ",null";
    return;
  }
  logprobs_ += fmt::format(",{}", finite_logprob(position->chosen.logprob));
  Json top = Json::object();
  for (const engine::TokenLogprob& alternative : position->alternatives) {
    // Two tokens may read alike; the more likely one stays.
    const std::string text = token_text(tokenizer, alternative.token);
    if (!top.contains(text)) top[text] = finite_logprob(alternative.logprob);
  }
  top_ += ',' + to_text(top);
}

void CompletionLogprobs::add_prompt(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                                    std::span<const engine::PositionLogprobs> positions) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    add(tokenizer, prompt[i], i == 0 || i > positions.size() ? nullptr : &positions[i - 1]);
  }
}

std::string CompletionLogprobs::take() {
  std::string json = "{";
  for (auto& [name, elements] : {std::pair("tokens", &tokens_), std::pair("token_logprobs", &logprobs_),
                                 std::pair("top_logprobs", &top_), std::pair("text_offset", &offsets_)}) {
    if (json.size() > 1) json += ',';
    json += fmt::format("\"{}\":[", name);
    const std::string taken = std::exchange(*elements, {});
    if (!taken.empty()) json += taken.substr(1);
    json += ']';
  }
  return json + "}";
}

}  // namespace reprise::server
