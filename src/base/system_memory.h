#pragma once

#include <cstddef>
#include <filesystem>

namespace reprise {

/// What the machine, or the container's memory limit where that is tighter, has for this process.
struct SystemMemory {
  size_t total_bytes = 0;
  size_t available_bytes = 0;
};

/// `root` is where proc/ and the control groups' mounts are found ("/" outside of tests).
SystemMemory system_memory(const std::filesystem::path& root = "/");

}  // namespace reprise
