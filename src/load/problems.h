#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace reprise::load {

/// Collects what is wrong, to report all of it in one error.
class Problems {
 public:
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  bool empty() const { return list_.empty(); }

  /// Throws nothing when there is nothing; else one line "WHAT: first; second; ... and N more".
  void throw_if_any(ErrorCode code, const std::string& what) const {
    if (list_.empty()) return;
    // One line stays readable; the count tells how much was left out.
    constexpr size_t kShown = 40;
    std::string text = what + ": ";
    for (size_t i = 0; i < list_.size() && i < kShown; ++i) text += (i == 0 ? "" : "; ") + list_[i];
    if (list_.size() > kShown) text += fmt::format("; and {} more", list_.size() - kShown);
    throw Error(code, std::move(text));
  }

 private:
  std::vector<std::string> list_;
};

}  // namespace reprise::load
