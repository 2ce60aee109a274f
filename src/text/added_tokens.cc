#include "text/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

/// Start of the character that ends before `position` (> 0).
size_t previous_character(std::string_view text, size_t position) {
  --position;
  while (position > 0 && (static_cast<uint8_t>(text[position]) & 0xC0) == 0x80) --position;
  return position;
}

bool word_before(std::string_view text, size_t position) {
  return position > 0 && is_word_character(read_utf8(text, previous_character(text, position)).code_point);
}

bool word_after(std::string_view text, size_t position) {
  return position < text.size() && is_word_character(read_utf8(text, position).code_point);
}

size_t skip_space_before(std::string_view text, size_t position) {
  while (position > 0) {
    const size_t previous = previous_character(text, position);
    if (!is_white_space(read_utf8(text, previous).code_point)) break;
    position = previous;
  }
  return position;
}

size_t skip_space_after(std::string_view text, size_t position) {
  while (position < text.size()) {
    const Utf8Unit unit = read_utf8(text, position);
    if (!is_white_space(unit.code_point)) break;
    position += unit.length;
  }
  return position;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<const AddedToken*> tokens, std::span<const std::string> spellings)
    : tokens_(std::move(tokens)) {
  REPRISE_CHECK(tokens_.size() == spellings.size());
  for (size_t i = 0; i < tokens_.size(); ++i) insert(spellings[i], static_cast<int32_t>(i));
}

void AddedTokenMatcher::insert(std::string_view spelling, int32_t index) {
  if (spelling.empty()) return;
  first_byte_[static_cast<uint8_t>(spelling[0])] = true;
  uint32_t node = 0;
  for (char c : spelling) {
    const auto [edge, added] =
        edges_.try_emplace(uint64_t{node} << 8 | static_cast<uint8_t>(c), static_cast<uint32_t>(terminal_.size()));
    if (added) terminal_.push_back(-1);
    node = edge->second;
  }
  // Two tokens may have the same normalised spelling: the first one given is found.
  if (terminal_[node] < 0) terminal_[node] = index;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text, size_t begin,
                                                       const std::function<bool(size_t, size_t)>& blocked) const {
  Match longest;
  uint32_t node = 0;
  for (size_t position = begin; position < text.size(); ++position) {
    const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[position]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (terminal_[node] < 0) continue;
    if (blocked(begin, position + 1)) break;
    longest = {position + 1, tokens_[static_cast<size_t>(terminal_[node])]};
  }
  return longest;
}

std::vector<AddedTokenMatcher::Stretch> AddedTokenMatcher::split(
    std::string_view text, const std::function<bool(size_t, size_t)>& blocked,
    const std::function<bool(const AddedToken&)>& skipped) const {
  std::vector<Stretch> out;
  size_t done = 0;  // text before this is in `out`
  for (size_t position = 0; position < text.size();) {
    if (!first_byte_[static_cast<uint8_t>(text[position])]) {
      ++position;
      continue;
    }
    const Match match = longest_at(text, position, blocked);
    if (!match.token) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = match.end;
    position = match.end;
    if (skipped(*match.token)) continue;
    if (match.token->single_word && (word_before(text, begin) || word_after(text, end))) continue;
    // White space that an earlier token took along is not taken twice.
    if (match.token->lstrip) begin = std::max(skip_space_before(text, begin), done);
    if (match.token->rstrip) end = skip_space_after(text, end);
    if (done < begin) out.push_back({done, begin, nullptr});
    out.push_back({begin, end, match.token});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), nullptr});
  return out;
}

}  // namespace reprise::text
