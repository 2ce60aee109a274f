#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/generation.h"
#include "client/http_loop.h"

namespace reprise::client {

/// What a batch in one request took. Seconds since it was sent.
struct BatchTimes {
  double first = 0;  ///< until every prompt of the batch had a token
  double latency = 0;
  int64_t first_tokens = 0;              ///< those that had come by then
  int64_t output_tokens = 0;             ///< of all prompts, as the server counts
  std::optional<int64_t> cached_tokens;  ///< the same
};

/// Sends all prompts, which are token ids, in one streamed request to /generate, and waits for `output_tokens` more of
/// each. Throws kIo for a failure, also when a prompt ends for another reason than its length.
BatchTimes run_batch(HttpLoop& loop, std::span<const Prompt> prompts, int32_t output_tokens, double temperature);

}  // namespace reprise::client
