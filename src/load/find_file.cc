#include "load/find_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "load/json.h"

namespace reprise::load {

std::optional<std::filesystem::path> find_file(const std::filesystem::path& directory, std::string_view prefix,
                                               std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix) && name.size() >= prefix.size() + suffix.size()) {
      names.push_back(name);
    }
  }
  if (names.empty()) return std::nullopt;
  std::ranges::sort(names);
  if (names.size() > 1) {
    throw Error(ErrorCode::kCorruptData, "{} has both {} and {}", directory.string(), printable(names[0]),
                printable(names[1]));
  }
  return directory / names[0];
}

}  // namespace reprise::load
