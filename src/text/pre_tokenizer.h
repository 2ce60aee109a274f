#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace reprise::text {

/// What becomes of a match: its own piece, nothing, part of the piece before or after it, or one piece with its
/// neighbouring matches.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// The `pre_tokenizer` of a tokenizer.json: cuts a text into the pieces within which byte pairs merge. Immutable.
class PreTokenizer {
 public:
  struct Split {
    Regex pattern;
    SplitBehavior behavior;
    bool invert;  ///< matches and the stretches between them change roles
  };
  /// The steps in order; a space is put before each piece that does not begin with one ahead of step
  /// `prefix_space_before`, or never when that is negative.
  PreTokenizer(std::vector<Split> steps, int prefix_space_before)
      : steps_(std::move(steps)), prefix_space_before_(prefix_space_before) {}

  /// Appends the pieces of `text` (valid UTF-8), none of them empty, to `out`. They point into `text` or into
  /// `storage`, which is overwritten.
  void apply(std::string_view text, RegexScratch& scratch, std::string& storage,
             std::vector<std::string_view>& out) const;

 private:
  std::vector<Split> steps_;
  int prefix_space_before_;
};

}  // namespace reprise::text
