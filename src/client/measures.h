#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/load.h"

namespace reprise::client {

/// Of many values; all zero without any. Percentiles interpolate linearly between neighbours, as numpy's do.
struct Distribution {
  size_t count = 0;
  double mean = 0, deviation = 0;  ///< the latter of the values themselves, not estimated for a larger population
  double median = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Distribution describe(std::vector<double> values);

/// What a run comes to. Only requests that succeeded count, except in `failed`.
struct ServingMeasures {
  int64_t completed = 0, failed = 0;
  double seconds = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  std::optional<int64_t> cached_tokens;             ///< absent: no answer told
  Distribution latency, first, per_token, between;  ///< milliseconds: E2E, TTFT, TPOT, ITL
  Distribution send_delay;                          ///< milliseconds from due to sent
  double concurrency = 0;                           ///< mean number of requests that ran: sum of latencies / seconds
  int64_t estimated = 0;  ///< requests whose tokens by event were not told, see TokenTimes::estimated
  int64_t uncounted = 0;  ///< requests whose number of tokens was not told

  double requests_per_second() const { return rate(static_cast<double>(completed)); }
  double input_throughput() const { return rate(static_cast<double>(input_tokens)); }
  double output_throughput() const { return rate(static_cast<double>(output_tokens)); }
  double rate(double count) const { return seconds > 0 ? count / seconds : 0; }
};
ServingMeasures measure(const LoadResult& result);

/// The bounds of a share of successes that is compatible with what was seen: Wilson's score interval at 95 %.
struct Interval {
  double low = 0, high = 0;
};
Interval wilson_interval(int64_t successes, int64_t trials);

}  // namespace reprise::client
