#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::client {

/// An event that brought content, or tokens without any with the answer's end.
struct ContentEvent {
  double seconds = 0;   ///< since the request was due
  int64_t tokens = -1;  ///< of the answer by then, as the server counts; -1: it did not say
};

/// When an answer's tokens came.
struct TokenTimes {
  double first = 0;  ///< seconds to the first content
  double last = 0;   ///< seconds to the last event
  /// Seconds between tokens: an event with n tokens yields n gaps of an n-th of the time since the event before it.
  /// Tokens that came with the first content have no gap: nobody waited for them after it.
  std::vector<double> gaps;
  /// Seconds for each token behind those of the first content; absent when there is none.
  std::optional<double> per_token;
  /// The server told the number of tokens at the end only, and not that of each event: they are dealt out evenly.
  bool estimated = false;
};

/// `events`: at least one, in order. `output_tokens`: of the whole answer; 0: not known, then every event is a token.
TokenTimes token_times(std::span<const ContentEvent> events, int64_t output_tokens);

}  // namespace reprise::client
