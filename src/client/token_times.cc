#include "client/token_times.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::client {
namespace {

/// Tokens by the end of each event.
std::vector<int64_t> tokens_by_event(std::span<const ContentEvent> events, int64_t output_tokens, bool& estimated) {
  const auto count = static_cast<int64_t>(events.size());
  const bool counted = std::all_of(events.begin(), events.end(), [](const ContentEvent& e) { return e.tokens >= 0; });
  estimated = !counted && output_tokens != count;
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    if (counted) {
      tokens.push_back(std::max(events[static_cast<size_t>(i)].tokens, tokens.empty() ? 0 : tokens.back()));
    } else {
      tokens.push_back(output_tokens > 0 ? (i + 1) * output_tokens / count : i + 1);
    }
  }
  return tokens;
}

}  // namespace

TokenTimes token_times(std::span<const ContentEvent> events, int64_t output_tokens) {
  REPRISE_CHECK(!events.empty());
  TokenTimes times;
  times.first = events.front().seconds;
  times.last = events.back().seconds;
  const std::vector<int64_t> tokens = tokens_by_event(events, output_tokens, times.estimated);
  double since = times.first;  // of the last event with a token
  for (size_t i = 1; i < events.size(); ++i) {
    const int64_t fresh = tokens[i] - tokens[i - 1];
    if (fresh == 0) continue;
    times.gaps.insert(times.gaps.end(), static_cast<size_t>(fresh),
                      (events[i].seconds - since) / static_cast<double>(fresh));
    since = events[i].seconds;
  }
  if (!times.gaps.empty()) times.per_token = (since - times.first) / static_cast<double>(times.gaps.size());
  return times;
}

}  // namespace reprise::client
