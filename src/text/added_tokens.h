#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::text {

/// An entry of `added_tokens`: a text that is one token wherever it stands, found before anything else is done.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      ///< a control token: left out of decoded text on request
  bool normalized = false;   ///< looked for in the normalised text instead of the raw one
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
};

/// Finds added tokens in a text: from left to right, at each place the longest. Immutable.
class AddedTokenMatcher {
 public:
  /// A stretch of the text: an added token, or the text between two (token is null).
  struct Stretch {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };

  AddedTokenMatcher() = default;
  /// `spellings[i]` is what to look for in place of `tokens[i]` (its content, normalised or not); empty ones are never
  /// found. The tokens must outlive the matcher.
  AddedTokenMatcher(std::vector<const AddedToken*> tokens, std::span<const std::string> spellings);

  bool empty() const { return tokens_.empty(); }
  /// Cuts the text. `blocked(begin, end)` says where no token may stand: the search then tries a shorter token and goes
  /// on with the next byte. `skipped(token)` says which tokens are read as text: as in Hugging Face's tokenizers, their
  /// match is used up, and no other token is found inside.
  std::vector<Stretch> split(std::string_view text, const std::function<bool(size_t, size_t)>& blocked,
                             const std::function<bool(const AddedToken&)>& skipped) const;

 private:
  struct Match {
    size_t end = 0;
    const AddedToken* token = nullptr;
  };
  Match longest_at(std::string_view text, size_t begin, const std::function<bool(size_t, size_t)>& blocked) const;
  void insert(std::string_view spelling, int32_t index);

  // A trie over bytes: edges_[node << 8 | byte] is the child; terminal_[node] the token that ends there, or -1.
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> terminal_{-1};
  bool first_byte_[256] = {};
  std::vector<const AddedToken*> tokens_;
};

}  // namespace reprise::text
