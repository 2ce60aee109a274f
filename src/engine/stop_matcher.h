#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::engine {

/// Looks for stop strings in a text that comes in parts, however it is cut: the one that is complete first counts, and
/// of several that end at the same place the longest. What may be the beginning of one is held back.
class StopMatcher {
 public:
  /// `stops`: not empty, valid UTF-8. `keep`: the stop string that is found is part of the text.
  explicit StopMatcher(std::vector<std::string> stops, bool keep = false) : stops_(std::move(stops)), keep_(keep) {}

  /// Takes text and appends to `out` what can be no part of a stop string. The index of the stop string that is
  /// complete now: what stood before it has been appended (and itself, if it is kept), and no more may be pushed.
  std::optional<size_t> push(std::string_view text, std::string& out);
  /// The text is over: appends what was held back.
  void finish(std::string& out);

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  bool keep_;
  std::string pending_;
};

}  // namespace reprise::engine
