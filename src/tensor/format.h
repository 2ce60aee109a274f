#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace reprise {

/// How a tensor's elements lie in memory. An open tag: a device defines its own (packed weights, NZ tiles); guards and
/// kernels compare it, nobody else interprets it. "nd" is plain strided memory.
class Format {
 public:
  constexpr Format() : Format("nd") {}
  /// At most 15 characters, e.g. "nd" or "n16k2"; longer names are cut.
  constexpr explicit Format(std::string_view name) {
    for (size_t i = 0; i < std::min(name.size(), name_.size() - 1); ++i) name_[i] = name[i];
  }

  constexpr std::string_view name() const { return name_.data(); }
  constexpr bool is_plain() const { return name() == "nd"; }
  friend constexpr bool operator==(const Format&, const Format&) = default;

 private:
  std::array<char, 16> name_{};
};

}  // namespace reprise
