#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The candidate with the fewest edits to `name`, if few enough for a typing mistake (of several the first, unless one
/// is its plural or singular); else the only one that goes on behind `name` with '_' or '-' and more words; else empty.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace reprise
