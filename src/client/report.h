#pragma once

#include <limits>
#include <optional>
#include <string>

#include "client/load.h"
#include "client/measures.h"
#include "client/prompt_source.h"
#include "client/server_state.h"

namespace reprise::client {

/// All that a run of `bench serve` has to say.
struct ServingReport {
  std::string backend, model, dataset;
  PromptLengths lengths;  ///< of the random datasets
  double request_rate = std::numeric_limits<double>::infinity();
  std::optional<int32_t> max_concurrency;
  uint64_t seed = 1;
  bool cache_flushed = false;
  /// Prompts are the texts of a file, which are taken again from the first when there are more requests.
  std::optional<int64_t> file_texts;
  ServingMeasures measures;
  std::optional<int64_t> retokenized;   ///< tokens of the texts that came back; absent without a tokenizer
  std::optional<double> accept_length;  ///< of speculative decoding
  DecodeCounters before, after;         ///< the server's, around the run
};

/// The share of prompt tokens from the server's cache above which a run is flagged as one that cannot be compared with
/// a cold one.
inline constexpr double kNotableCacheShare = 0.01;

/// The lines of SGLang's bench_serving, one for one, and behind them what they leave out: failures, percentiles, the
/// cache, decode steps by mode, and how times were counted.
std::string report_text(const ServingReport& report);

/// The same as one JSON object on one line, with bench_serving's keys; `requests`: with details of each unless null.
std::string report_json(const ServingReport& report, const LoadResult* requests);

}  // namespace reprise::client
