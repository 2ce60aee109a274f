#include "base/cgroup.h"

#include <fstream>
#include <sstream>
#include <string>

namespace reprise {
namespace {

struct Membership {
  bool found = false;
  std::string path;  ///< below the root of the hierarchy
};

bool list_contains(std::string_view comma_list, std::string_view word) {
  while (!comma_list.empty()) {
    const size_t comma = comma_list.find(',');
    if (comma_list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    comma_list.remove_prefix(comma + 1);
  }
  return false;
}

/// /proc/self/cgroup: "ID:controllers:path"; the version 2 hierarchy has ID 0 and no controllers.
void read_memberships(const std::filesystem::path& root, std::string_view controller, Membership& version1,
                      Membership& version2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      version2 = {true, line.substr(second + 1)};
    } else if (list_contains(controllers, controller)) {
      version1 = {true, line.substr(second + 1)};
    }
  }
}

/// Where a hierarchy is mounted, and which of its groups is seen there (a container may see only its own).
struct Mount {
  std::string group;
  std::string directory;
  std::string type;
  std::string options;
};

/// /proc/self/mountinfo: "ID PARENT MAJOR:MINOR GROUP DIRECTORY OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS".
std::vector<Mount> read_mounts(const std::filesystem::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    Mount mount;
    std::string skipped;
    std::istringstream before(line.substr(0, dash));
    before >> skipped >> skipped >> skipped >> mount.group >> mount.directory;
    std::istringstream after(line.substr(dash + 3));
    after >> mount.type >> skipped >> mount.options;
    if (mount.type == "cgroup" || mount.type == "cgroup2") mounts.push_back(mount);
  }
  return mounts;
}

void add_directories(const std::filesystem::path& root, const Mount& mount, std::string group,
                     std::vector<std::filesystem::path>& directories) {
  // The mount shows the hierarchy from mount.group downwards. A group outside of it (or with "..") is not visible
  // here; the mount point itself is then the innermost one that is.
  if (mount.group != "/") {
    const bool below =
        group.starts_with(mount.group) && (group.size() == mount.group.size() || group[mount.group.size()] == '/');
    group = below ? group.substr(mount.group.size()) : "";
  }
  if (group.find("..") != std::string::npos) group.clear();
  const std::filesystem::path top = root / std::filesystem::path(mount.directory).relative_path();
  const std::filesystem::path relative = std::filesystem::path(group).relative_path();
  for (std::filesystem::path part = relative; !part.empty(); part = part.parent_path())
    directories.push_back(top / part);
  directories.push_back(top);
}

}  // namespace

std::vector<std::filesystem::path> cgroup_directories(const std::filesystem::path& root, std::string_view controller) {
  Membership version1;
  Membership version2;
  read_memberships(root, controller, version1, version2);
  std::vector<std::filesystem::path> directories;
  for (const Mount& mount : read_mounts(root)) {
    if (mount.type == "cgroup2" && version2.found) {
      add_directories(root, mount, version2.path, directories);
    } else if (mount.type == "cgroup" && version1.found && list_contains(mount.options, controller)) {
      add_directories(root, mount, version1.path, directories);
    }
  }
  return directories;
}

}  // namespace reprise
