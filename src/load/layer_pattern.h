#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace reprise::load {

/// Names layers as compressed-tensors does: a plain name stands for itself, "re:EXPRESSION" for every name that the
/// expression matches from its beginning (Python's re.match). Copies share the compiled expression; threads may.
class LayerPattern {
 public:
  /// Throws kUnsupported, naming `where` and the pattern, for an expression that does not compile.
  LayerPattern(std::string_view pattern, const std::string& where);

  /// Throws kResourceExhausted when an expression takes too many steps.
  bool matches(std::string_view layer) const;
  const std::string& text() const { return text_; }

 private:
  struct Code;
  std::string text_;
  std::shared_ptr<const Code> code_;  ///< null: a plain name
};

}  // namespace reprise::load
