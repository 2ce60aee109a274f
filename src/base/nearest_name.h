#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The candidate with the fewest single-character edits to `name`, if there are few enough for a typing mistake; empty
/// otherwise. Of several the first, unless one is the plural or the singular of `name`.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace reprise
