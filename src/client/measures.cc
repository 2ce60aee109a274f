#include "client/measures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace reprise::client {
namespace {

double percentile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Distribution describe(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  result.count = values.size();
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / count);
  result.median = percentile(values, 0.5);
  result.p90 = percentile(values, 0.9);
  result.p95 = percentile(values, 0.95);
  result.p99 = percentile(values, 0.99);
  result.max = values.back();
  return result;
}

ServingMeasures measure(const LoadResult& result) {
  ServingMeasures measures;
  measures.seconds = result.seconds;
  std::vector<double> latency, first, per_token, between, delay;
  for (const RequestRecord& request : result.requests) {
    if (!request.succeeded()) {
      ++measures.failed;
      continue;
    }
    ++measures.completed;
    measures.input_tokens += request.prompt_tokens;
    measures.output_tokens += request.output_tokens;
    if (request.cached_tokens) {
      measures.cached_tokens = measures.cached_tokens.value_or(0) + *request.cached_tokens;
    }
    measures.estimated += request.times.estimated ? 1 : 0;
    measures.uncounted += request.output_counted ? 0 : 1;
    latency.push_back(1e3 * request.times.last);
    first.push_back(1e3 * request.times.first);
    delay.push_back(1e3 * (request.sent - request.due));
    if (request.times.per_token) per_token.push_back(1e3 * *request.times.per_token);
    for (const double gap : request.times.gaps) between.push_back(1e3 * gap);
  }
  measures.concurrency = measures.rate(std::accumulate(latency.begin(), latency.end(), 0.0) / 1e3);
  measures.latency = describe(std::move(latency));
  measures.first = describe(std::move(first));
  measures.per_token = describe(std::move(per_token));
  measures.between = describe(std::move(between));
  measures.send_delay = describe(std::move(delay));
  return measures;
}

Interval wilson_interval(int64_t successes, int64_t trials) {
  if (trials == 0) return {0, 1};
  constexpr double kDeviations = 1.959963984540054;  // of 95 % of a normal distribution
  constexpr double kSquare = kDeviations * kDeviations;
  const auto count = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / count;
  const double centre = (share + kSquare / (2 * count)) / (1 + kSquare / count);
  const double half =
      kDeviations / (1 + kSquare / count) * std::sqrt(share * (1 - share) / count + kSquare / (4 * count * count));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace reprise::client
