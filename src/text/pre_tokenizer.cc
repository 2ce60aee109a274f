#include "text/pre_tokenizer.h"

#include <algorithm>

namespace reprise::text {
namespace {

/// Merges pieces as the behaviour says, in place. The rules are those of tokenizers' NormalizedString::split.
void merge_pieces(std::vector<RegexPiece>& pieces, SplitBehavior behavior) {
  std::vector<RegexPiece> merged;
  bool previous_match = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(pieces, [](const RegexPiece& piece) { return piece.is_match; });
      return;
    case SplitBehavior::kContiguous:
      for (const RegexPiece& piece : pieces) {
        if (!merged.empty() && piece.is_match == previous_match) {
          merged.back().end = piece.end;
        } else {
          merged.push_back(piece);
        }
        previous_match = piece.is_match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const RegexPiece& piece : pieces) {
        if (!merged.empty() && piece.is_match && !previous_match) {
          merged.back().end = piece.end;
        } else {
          merged.push_back(piece);
        }
        previous_match = piece.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        if (!merged.empty() && piece->is_match && !previous_match) {
          merged.back().begin = piece->begin;
        } else {
          merged.push_back(*piece);
        }
        previous_match = piece->is_match;
      }
      std::reverse(merged.begin(), merged.end());
      break;
  }
  pieces = std::move(merged);
}

void apply_split(const PreTokenizer::Split& step, const std::vector<std::string_view>& in, RegexScratch& scratch,
                 std::vector<RegexPiece>& pieces, std::vector<std::string_view>& out) {
  for (std::string_view text : in) {
    pieces.clear();
    step.pattern.split(text, scratch, pieces);
    if (step.invert) {
      for (RegexPiece& piece : pieces) piece.is_match = !piece.is_match;
    }
    merge_pieces(pieces, step.behavior);
    for (const RegexPiece& piece : pieces) {
      if (piece.begin != piece.end) out.push_back(text.substr(piece.begin, piece.end - piece.begin));
    }
  }
}

void put_spaces(std::vector<std::string_view>& pieces, std::string& storage) {
  size_t size = 0;
  for (std::string_view piece : pieces) size += piece.size() + 1;
  storage.clear();
  storage.reserve(size);  // the views below stay valid, because nothing grows it
  for (std::string_view& piece : pieces) {
    if (piece.starts_with(' ')) continue;
    const size_t start = storage.size();
    storage.append(" ").append(piece);
    piece = std::string_view(storage).substr(start);
  }
}

}  // namespace

void PreTokenizer::apply(std::string_view text, RegexScratch& scratch, std::string& storage,
                         std::vector<std::string_view>& out) const {
  if (text.empty()) return;
  std::vector<std::string_view> pieces{text};
  std::vector<std::string_view> next;
  std::vector<RegexPiece> cuts;
  for (size_t i = 0; i <= steps_.size(); ++i) {
    if (static_cast<int>(i) == prefix_space_before_) put_spaces(pieces, storage);
    if (i == steps_.size()) break;
    next.clear();
    apply_split(steps_[i], pieces, scratch, cuts, next);
    pieces.swap(next);
  }
  out.insert(out.end(), pieces.begin(), pieces.end());
}

}  // namespace reprise::text
