#pragma once

#include <cstddef>
#include <filesystem>

namespace reprise {

/// What the system counts as memory of this process, in bytes. Values that it does not tell are 0.
struct ProcessMemory {
  size_t resident = 0;       ///< all that is in memory now: the sum of the following three
  size_t anonymous = 0;      ///< of its own: what it allocated and has touched
  size_t file = 0;           ///< pages of mapped files, which the system may drop and read again
  size_t shared = 0;         ///< shared memory and files of a tmpfs
  size_t peak_resident = 0;  ///< the largest `resident` since the process began (VmHWM)
};

/// `root` is where proc/ is found ("/" outside of tests).
ProcessMemory process_memory(const std::filesystem::path& root = "/");

}  // namespace reprise
