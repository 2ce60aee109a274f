#include "emulator/runtime/timing_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "emulator/runtime/device.h"
#include "emulator/runtime/thread_state.h"

namespace reprise::emulator {
namespace {

constexpr double kMicro = 1e6;
constexpr double kMega = 1e-6;
constexpr double kGiga = 1e-9;

std::string kernel_table(const TimeAccount& account) {
  std::vector<std::pair<const Kernel*, KernelTotals>> rows(account.kernels.begin(), account.kernels.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.second.seconds, std::string_view(a.first->name)) <
           std::pair(-b.second.seconds, std::string_view(b.first->name));
  });
  std::string text = fmt::format("{:40} {:>9} {:>9} {:>12} {:>12} {:>12} {:>12} {:>10} {:>7}\n", "kernel", "runs",
                                 "in graphs", "MB read", "MB written", "G mult-adds", "us", "us each", "memory");
  for (const auto& [kernel, totals] : rows) {
    const double share = totals.seconds > 0 ? totals.memory_seconds / totals.seconds : 0;
    text += fmt::format("{:40} {:9} {:9} {:12.3f} {:12.3f} {:12.3f} {:12.1f} {:10.2f} {:6.0f}%\n", kernel->name,
                        totals.runs, totals.graph_runs, static_cast<double>(totals.bytes_read) * kMega,
                        static_cast<double>(totals.bytes_written) * kMega,
                        static_cast<double>(totals.multiply_adds) * kGiga, totals.seconds * kMicro,
                        totals.seconds * kMicro / static_cast<double>(totals.runs), share * 100);
  }
  return text;
}

std::string graph_table(const TimeAccount& account) {
  if (account.graphs.empty()) return {};
  std::string text = fmt::format("\n{:>9} {:>9} {:>14} {:>14} {:>12} {:>12} {:>12}\n", "graph", "replays",
                                 "kernels each", "MB each", "us shortest", "us mean", "us longest");
  for (const auto& [graph, totals] : account.graphs) {
    const auto count = static_cast<double>(totals.replays);
    text += fmt::format("{:9} {:9} {:14.1f} {:14.3f} {:12.1f} {:12.1f} {:12.1f}\n", graph, totals.replays,
                        static_cast<double>(totals.kernels) / count, static_cast<double>(totals.bytes) * kMega / count,
                        totals.shortest * kMicro, totals.seconds * kMicro / count, totals.longest * kMicro);
  }
  return text;
}

std::string constants(const Timing& timing) {
  return fmt::format(
      "\nconstants: {} host_operator, {} host_launch, {} host_call, {} host_replay, {} kernel_start, "
      "{} graph_kernel_start, {} task (s); {:.4g} memory_bandwidth, {:.4g} copy_bandwidth (bytes/s); {:.4g} cube_rate "
      "(multiply-adds/s, twice that for int8)\n",
      timing.host_operator, timing.host_launch, timing.host_call, timing.host_replay, timing.kernel_start,
      timing.graph_kernel_start, timing.task, timing.memory_bandwidth, timing.copy_bandwidth, timing.cube_rate);
}

}  // namespace

void GraphTotals::add_replay(uint64_t kernels_run, uint64_t bytes_moved, double duration) {
  shortest = replays == 0 ? duration : std::min(shortest, duration);
  longest = std::max(longest, duration);
  ++replays;
  kernels += kernels_run;
  bytes += bytes_moved;
  seconds += duration;
}

std::string timing_report(const Device& device) {
  const DeviceStatistics& it = device.statistics;
  std::string text = fmt::format(
      "device {} ({}), by the timing model: {:.1f} us, the host's clock at {:.1f} us\n"
      "calls of the host: {} launches, {} replays, {} kernels updated; run: {} kernels ({} in graphs), {} other tasks\n"
      "moved: {:.3f} MB read and {:.3f} MB written by kernels in {:.1f} us, {:.3f} MB copied\n\n",
      device.id, device.profile.name, std::max(0.0, it.clock - it.clock_at_reset) * kMicro,
      (ThreadState::current().clock - it.host_clock_at_reset) * kMicro, it.launches, it.replays, it.updates, it.kernels,
      it.graph_kernels, it.other_tasks, static_cast<double>(it.bytes_read) * kMega,
      static_cast<double>(it.bytes_written) * kMega, it.kernel_time * kMicro,
      static_cast<double>(it.bytes_copied) * kMega);
  return text + kernel_table(it.account) + graph_table(it.account) + constants(device.profile.timing);
}

Status check_timing_file() {
  const char* path = std::getenv("REPRISE_ACL_TIMING");
  if (!path || !*path || std::ofstream(path, std::ios::app)) return {};
  return Status(ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_TIMING: cannot write '{}'", path));
}

Status write_timing(const Device& device) {
  const char* path = std::getenv("REPRISE_ACL_TIMING");
  if (!path || !*path) return {};
  if (device.statistics.kernels == 0 && device.statistics.other_tasks == 0) return {};
  std::ofstream file(path, std::ios::app);
  file << timing_report(device);
  if (file.flush()) return {};
  return Status(ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_TIMING: cannot write '{}'", path));
}

}  // namespace reprise::emulator
