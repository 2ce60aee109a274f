#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace reprise::text {

/// The `normalizer` of a tokenizer.json: steps applied in order; none leave the text as it is. Immutable.
class Normalizer {
 public:
  struct Lowercase {};
  struct Strip {
    bool left;
    bool right;
  };
  /// Puts a text before any text that is not empty.
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Regex pattern;
    std::string content;
  };
  using Step = std::variant<NormalForm, Lowercase, Strip, Prepend, Replace>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  /// Normalises valid UTF-8.
  std::string apply(std::string_view text, RegexScratch& scratch) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace reprise::text
