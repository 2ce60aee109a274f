#include "engine/sampling_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/utf8.h"

namespace reprise::engine {
namespace {

template <typename T>
void require(bool allowed, const char* field, const T& value, const char* range) {
  if (!allowed) throw Error(ErrorCode::kInvalidArgument, "{} is {}, but must be {}", field, value, range);
}

void require_token(const char* list, size_t index, int32_t token, int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw Error(ErrorCode::kInvalidArgument, "{}[{}] is {}, but must be between 0 and {}", list, index, token,
              vocabulary - 1);
}

void check_logit_bias(const std::vector<std::pair<int32_t, float>>& entries, int32_t vocabulary) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto [token, bias] = entries[i];
    require_token("logit_bias", i, token, vocabulary);
    if (!std::isfinite(bias)) {
      throw Error(ErrorCode::kInvalidArgument, "logit_bias of token {} is {}, but must be finite", token, bias);
    }
    tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice == tokens.end()) return;
  throw Error(ErrorCode::kInvalidArgument, "logit_bias names token {} more than once", *twice);
}

// Comparisons with NaN are false, so these refuse it.
bool between(double value, double low, double high) { return value >= low && value <= high; }

}  // namespace

void SamplingParameters::validate(int32_t vocabulary) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kSmallest = std::numeric_limits<float>::min();
  require(between(temperature, 0, kLargest), "temperature", temperature, "finite and at least 0 (0: no sampling)");
  require(top_k >= -1, "top_k", top_k, "at least 1, or 0 or -1 for all tokens");
  require(top_p > 0 && top_p <= 1, "top_p", top_p, "above 0 and at most 1");
  require(between(min_p, 0, 1), "min_p", min_p, "between 0 and 1");
  require(between(repetition_penalty, kSmallest, kLargest), "repetition_penalty", repetition_penalty,
          "finite and above 0 (1: none)");
  require(between(presence_penalty, -2, 2), "presence_penalty", presence_penalty, "between -2 and 2");
  require(between(frequency_penalty, -2, 2), "frequency_penalty", frequency_penalty, "between -2 and 2");
  require(max_new_tokens >= 0, "max_new_tokens", max_new_tokens, "at least 0");
  if (min_new_tokens < 0 || min_new_tokens > max_new_tokens) {
    throw Error(ErrorCode::kInvalidArgument, "min_new_tokens is {}, but must be between 0 and max_new_tokens, {}",
                min_new_tokens, max_new_tokens);
  }
  if (logprobs) require(*logprobs >= 0 && *logprobs <= kMaxLogprobs, "logprobs", *logprobs, "between 0 and 20");
  for (size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty()) throw Error(ErrorCode::kInvalidArgument, "stop[{}] is empty, but must be a text", i);
    if (!text::is_valid_utf8(stop[i])) {
      throw Error(ErrorCode::kInvalidArgument, "stop[{}] is not valid UTF-8, but must be a text", i);
    }
  }
  for (size_t i = 0; i < stop_token_ids.size(); ++i) {
    require_token("stop_token_ids", i, stop_token_ids[i], vocabulary);
  }
  check_logit_bias(logit_bias, vocabulary);
}

}  // namespace reprise::engine
