#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace reprise {

/// How many CPUs this process may keep busy, and why.
struct CpuBudget {
  int cpus = 1;
  std::string reason;  ///< for people, e.g. "2 threads: CPU quota 2.0 of 64"
};

/// What the budget follows from; tests pass their own.
struct CpuSources {
  std::filesystem::path root = "/";  ///< where proc/ and the control groups' mounts are found
  int host_cpus = 1;                 ///< CPUs of the machine that are online
  int affinity_cpus = 1;             ///< CPUs that this process may run on (a cpuset shows here, too)
};

/// The sources of the running process.
CpuSources system_cpu_sources();

/// The smaller of affinity and CPU quota (control groups version 1 and 2, every level), rounded down, at least 1.
CpuBudget cpu_budget(const CpuSources& sources);
CpuBudget cpu_budget();
/// How many threads of this process can run at the same time, by its budget.
int usable_threads();

/// Bytes of the largest cache that CPU 0 has or shares, as the system tells under `root`; nothing where it does not.
std::optional<size_t> last_level_cache_bytes(const std::filesystem::path& root = "/");

}  // namespace reprise
