#include "base/cpu_topology.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>

#include "base/cgroup.h"

namespace reprise {
namespace {

/// CPU time per period, both in microseconds.
struct Quota {
  int64_t quota = 0;
  int64_t period = 1;
  double cpus() const { return static_cast<double>(quota) / static_cast<double>(period); }
};

std::optional<int64_t> to_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_integer(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return to_integer(word);
}

/// The quota of one group: cpu.max of version 2 ("QUOTA PERIOD", QUOTA may be "max"), or the two files of version 1
/// (-1 means none).
std::optional<Quota> read_quota(const std::filesystem::path& directory) {
  std::optional<int64_t> quota;
  std::optional<int64_t> period;
  std::ifstream file(directory / "cpu.max");
  std::string first;
  std::string second;
  if (file >> first >> second) {
    quota = to_integer(first);
    period = to_integer(second);
  } else {
    quota = read_integer(directory / "cpu.cfs_quota_us");
    period = read_integer(directory / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return Quota{*quota, *period};
}

int count_affinity() {
  // The mask's size is that of the kernel, which may be larger than cpu_set_t: try until it fits.
  for (int bits = 1024; bits <= (1 << 20); bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(bits));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(bits));
    CPU_ZERO_S(bytes, set);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    const int count = read ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (read) return std::max(1, count);
  }
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

CpuSources system_cpu_sources() {
  CpuSources sources;
  sources.host_cpus = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  sources.affinity_cpus = count_affinity();
  return sources;
}

CpuBudget cpu_budget(const CpuSources& sources) {
  std::optional<Quota> tightest;
  for (const std::filesystem::path& directory : cgroup_directories(sources.root, "cpu")) {
    const std::optional<Quota> quota = read_quota(directory);
    if (quota && (!tightest || quota->cpus() < tightest->cpus())) tightest = quota;
  }
  CpuBudget budget;
  const int64_t whole = tightest ? std::max<int64_t>(1, tightest->quota / tightest->period) : INT32_MAX;
  budget.cpus = static_cast<int>(std::min<int64_t>(whole, std::max(1, sources.affinity_cpus)));
  const char* unit = budget.cpus == 1 ? "thread" : "threads";
  if (tightest && tightest->cpus() < sources.affinity_cpus) {
    budget.reason =
        fmt::format("{} {}: CPU quota {:.1f} of {}", budget.cpus, unit, tightest->cpus(), sources.host_cpus);
  } else if (sources.affinity_cpus < sources.host_cpus) {
    budget.reason = fmt::format("{} {}: affinity to {} of {} CPUs", budget.cpus, unit, budget.cpus, sources.host_cpus);
  } else {
    budget.reason = fmt::format("{} {}: all CPUs of the machine", budget.cpus, unit);
  }
  return budget;
}

CpuBudget cpu_budget() { return cpu_budget(system_cpu_sources()); }

int usable_threads() { return cpu_budget().cpus; }

std::optional<size_t> last_level_cache_bytes(const std::filesystem::path& root) {
  std::optional<size_t> largest;
  for (int index = 0;; ++index) {
    const auto directory = root / fmt::format("sys/devices/system/cpu/cpu0/cache/index{}", index);
    std::ifstream type(directory / "type");
    std::string word;
    if (!(type >> word)) return largest;
    // "32768K", "2M" or a number of bytes.
    std::ifstream size(directory / "size");
    std::string text;
    if (word == "Instruction" || !(size >> text)) continue;
    const int shift = text.back() == 'K' ? 10 : text.back() == 'M' ? 20 : 0;
    if (shift > 0) text.pop_back();
    const std::optional<int64_t> count = to_integer(text);
    if (count && *count > 0) largest = std::max(largest.value_or(0), static_cast<size_t>(*count) << shift);
  }
}

}  // namespace reprise
