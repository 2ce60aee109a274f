#include "engine/stop_matcher.h"

#include <algorithm>

namespace reprise::engine {

std::optional<size_t> StopMatcher::push(std::string_view text, std::string& out) {
  if (stops_.empty()) {
    out += text;
    return std::nullopt;
  }
  pending_ += text;
  std::optional<size_t> match;
  size_t match_begin = 0;
  size_t match_end = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t begin = pending_.find(stops_[i]);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stops_[i].size();
    if (!match || end < match_end || (end == match_end && begin < match_begin)) {
      match = i;
      match_begin = begin;
      match_end = end;
    }
  }
  const size_t certain = match ? (keep_ ? match_end : match_begin) : pending_.size() - held_back();
  out.append(pending_, 0, certain);
  pending_.erase(0, match ? pending_.size() : certain);
  return match;
}

void StopMatcher::finish(std::string& out) {
  out += pending_;
  pending_.clear();
}

// The longest end of the pending text that begins a stop string.
size_t StopMatcher::held_back() const {
  size_t longest = 0;
  const std::string_view pending = pending_;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, pending.size()); length > longest; --length) {
      if (pending.ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace reprise::engine
