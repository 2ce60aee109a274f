#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace reprise::load {

/// The one file of a directory whose name begins and ends so. Throws kCorruptData naming two of them, if there are.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& directory, std::string_view prefix,
                                               std::string_view suffix);

}  // namespace reprise::load
