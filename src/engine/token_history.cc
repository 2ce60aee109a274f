#include "engine/token_history.h"

#include <algorithm>

namespace reprise::engine {

TokenHistory::TokenHistory(int32_t vocabulary, std::span<const int32_t> prompt, int32_t max_new_tokens)
    : output_counts_(static_cast<size_t>(vocabulary)), is_seen_(static_cast<size_t>(vocabulary)) {
  seen_.reserve(std::min(static_cast<size_t>(vocabulary), prompt.size() + static_cast<size_t>(max_new_tokens)));
  for (const int32_t token : prompt) see(token);
}

void TokenHistory::add(int32_t token) {
  ++output_counts_[static_cast<size_t>(token)];
  see(token);
}

void TokenHistory::see(int32_t token) {
  if (is_seen_[static_cast<size_t>(token)]) return;
  is_seen_[static_cast<size_t>(token)] = true;
  seen_.push_back(token);
}

}  // namespace reprise::engine
