#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/sampling_parameters.h"

namespace reprise::engine {

using RequestId = int64_t;

/// Why a request ended.
enum class FinishReason {
  kStop,       ///< an end token of the model, a stop token or a stop string
  kLength,     ///< max_new_tokens
  kCancelled,  ///< cancel() was called
  kError,      ///< its step or its sampling failed; see RequestOutput::error
};

/// "stop", "length", "cancelled", "error".
std::string_view name_of(FinishReason reason);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

/// Log probabilities at one position, by the model's own distribution: before penalties, logit_bias, temperature and
/// filters. They are finite.
struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> alternatives;  ///< the most likely first, equal ones by ascending token
};

/// What a request has produced.
struct RequestOutput {
  std::vector<int32_t> token_ids;  ///< with the token that ended it
  std::string text;                ///< without what ended it unless keep_stop says so; empty without a tokenizer
  std::vector<PositionLogprobs> logprobs;
  /// Of the prompt's tokens from max(prompt_logprobs_start, 1) on: nothing says how likely the first one is.
  std::vector<PositionLogprobs> prompt_logprobs;
  FinishReason finish = FinishReason::kLength;
  std::string stop_string;            ///< the stop string that ended it; empty when something else did
  std::optional<int32_t> stop_token;  ///< the end token or stop token that ended it
  std::optional<Error> error;         ///< when finish is kError
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache when the request began
  int32_t preemptions = 0;    ///< how often it lost its pages and was computed again
  uint64_t seed = 0;          ///< the one used
};

/// One produced token, or the end of a request.
struct TokenEvent {
  RequestId request = 0;
  std::optional<int32_t> token;  ///< absent when the request ended without one
  std::string_view text;  ///< what became certain: whole characters, never a part of a stop string; valid in the call
  int32_t cached_tokens = 0;                   ///< see RequestOutput: known from the first event on
  const PositionLogprobs* logprobs = nullptr;  ///< when asked for, and there is a token; valid in the call
  /// With the first event, when asked for: see RequestOutput; valid in the call.
  std::span<const PositionLogprobs> prompt_logprobs;
  const RequestOutput* output = nullptr;  ///< with the last event of a request, else null; valid in the call
};

/// Called on the thread that calls step(). It may call submit() and cancel(). An exception of it ends its request with
/// kError.
using TokenCallback = std::function<void(const TokenEvent& event)>;

struct Request {
  std::vector<int32_t> prompt;  ///< not empty
  SamplingParameters sampling;
  bool skip_special_tokens = true;  ///< control tokens are left out of the text
  TokenCallback on_token;           ///< may be empty
  /// Log probabilities of the prompt's own tokens and of so many alternatives, [0, 20]; absent: none. With
  /// max_new_tokens 0 the prompt is read for them alone.
  std::optional<int32_t> prompt_logprobs = {};
  int32_t prompt_logprobs_start = 0;  ///< the first token of the prompt that they are wanted of
  int32_t priority = 0;               ///< higher ones are run first, and lose their pages last
  /// Only requests of the same salt share what the prefix cache keeps: a secret keeps others from finding out by their
  /// speed what was asked.
  std::string cache_salt = {};
  std::string label = {};  ///< what the client calls it, for logs
};

}  // namespace reprise::engine
