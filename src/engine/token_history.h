#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::engine {

/// Which tokens a request has seen, for penalties.
class TokenHistory {
 public:
  /// `vocabulary`: one more than the largest token; `max_new_tokens`: so many add() calls allocate nothing.
  TokenHistory(int32_t vocabulary, std::span<const int32_t> prompt, int32_t max_new_tokens);

  /// A token was produced.
  void add(int32_t token);
  /// Every token of prompt and output once.
  std::span<const int32_t> seen() const { return seen_; }
  /// How often the token was produced; its places in the prompt do not count.
  int32_t output_count(int32_t token) const { return output_counts_[static_cast<size_t>(token)]; }

 private:
  void see(int32_t token);

  std::vector<int32_t> output_counts_;
  std::vector<bool> is_seen_;
  std::vector<int32_t> seen_;
};

}  // namespace reprise::engine
