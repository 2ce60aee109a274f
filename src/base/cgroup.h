#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace reprise {

/// The directories of the control groups that hold this process for one controller ("cpu", "memory"), innermost first
/// up to the mount: a limit of any of them holds. Version 1 and version 2 directories may both be among them. Empty
/// when control groups are not mounted. `root` is prefixed to every path read ("/" outside of tests).
std::vector<std::filesystem::path> cgroup_directories(const std::filesystem::path& root, std::string_view controller);

}  // namespace reprise
