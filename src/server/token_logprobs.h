#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/json.h"
#include "text/tokenizer.h"

namespace reprise::server {

/// JSON has no infinity: what is less likely than this is given as this, as OpenAI does.
inline constexpr double kLeastLogprob = -9999.0;
double finite_logprob(float value);

/// A token by itself as text; bytes that are no character by themselves are U+FFFD.
std::string token_text(const text::Tokenizer& tokenizer, int32_t token);

/// {"token", "logprob", "bytes", "top_logprobs": [...]} as in answers to chats.
Json chat_logprob(const text::Tokenizer& tokenizer, const engine::PositionLogprobs& position);

/// The four lists of answers to completions, filled position by position.
class CompletionLogprobs {
 public:
  /// Offsets of tokens count characters from here.
  explicit CompletionLogprobs(int64_t first_offset = 0) : offset_(first_offset) {}

  /// `position` is null for the first token of a prompt, which nothing predicts.
  void add(const text::Tokenizer& tokenizer, int32_t token, const engine::PositionLogprobs* position);
  /// The tokens of a prompt, of which all but the first have log probabilities.
  void add_prompt(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                  std::span<const engine::PositionLogprobs> positions);
  /// What was added since the last call, as the text of a JSON object.
  std::string take();

 private:
  int64_t offset_;
  // The elements of the lists, each behind a comma.
  std::string tokens_;
  std::string logprobs_;
  std::string top_;
  std::string offsets_;
};

}  // namespace reprise::server
