#include "base/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/cgroup.h"

namespace reprise {
namespace {

/// The first word as a number; nothing for "max" and for a file that is not there.
std::optional<size_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// A line "NAME: N kB" of /proc/meminfo in bytes, 0 when it is not there.
size_t read_meminfo(const std::filesystem::path& root, const std::string& name) {
  std::ifstream file(root / "proc/meminfo");
  std::string word;
  size_t kilobytes = 0;
  while (file >> word) {
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

SystemMemory system_memory(const std::filesystem::path& root) {
  SystemMemory memory{read_meminfo(root, "MemTotal"), read_meminfo(root, "MemAvailable")};
  for (const std::filesystem::path& directory : cgroup_directories(root, "memory")) {
    std::optional<size_t> limit = read_bytes(directory / "memory.max");
    std::optional<size_t> used = read_bytes(directory / "memory.current");
    if (!limit) {
      limit = read_bytes(directory / "memory.limit_in_bytes");
      used = read_bytes(directory / "memory.usage_in_bytes");
    }
    if (!limit) continue;
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::min(memory.available_bytes, *limit - std::min(*limit, used.value_or(0)));
  }
  return memory;
}

}  // namespace reprise
