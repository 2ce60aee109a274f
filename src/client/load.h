#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/generation.h"
#include "client/http_loop.h"
#include "client/token_times.h"

namespace reprise::client {

/// How requests reach a server.
struct LoadOptions {
  /// Requests a second, at intervals as of a Poisson process; infinite: all of them at once.
  double request_rate = std::numeric_limits<double>::infinity();
  /// Most requests that run at a time; absent: any number.
  std::optional<int32_t> max_concurrency;
  uint64_t seed = 1;                         ///< of the intervals
  std::function<bool()> interrupted;         ///< asked ten times a second; true ends the requests that run
  std::function<void(size_t done)> on_done;  ///< after each request
};

/// What became of one request. Times are seconds since the run began.
struct RequestRecord {
  /// When it was to be sent: its arrival by the request rate. Without a rate, when there was a place for it. Latencies
  /// count from here, so that a request pays for the time in which it could not be sent.
  double due = 0;
  double sent = 0;
  double end = 0;     ///< the connection's
  std::string error;  ///< empty: it succeeded
  std::string text;
  std::string finish_reason;
  int64_t prompt_tokens = 0;  ///< as the server counts, or else as planned
  int64_t output_tokens = 0;  ///< as the server counts; without its word, one for each event
  std::optional<int64_t> cached_tokens;
  bool output_counted = false;  ///< the server told output_tokens
  TokenTimes times;             ///< since `due`; of successful requests

  bool succeeded() const { return error.empty(); }
};

struct LoadResult {
  std::vector<RequestRecord> requests;  ///< in the order of the prompts
  double seconds = 0;                   ///< from the first arrival to the last end
  bool interrupted = false;
};

/// Sends every prompt and waits for all answers. Failures of requests are kept in their records.
LoadResult run_load(HttpLoop& loop, const Backend& backend, std::span<const Prompt> prompts,
                    const GenerationSettings& settings, const LoadOptions& options);

/// One request alone; throws what went wrong with it.
RequestRecord run_one(HttpLoop& loop, const Backend& backend, const Prompt& prompt, const GenerationSettings& settings);

}  // namespace reprise::client
