#include "emulator/runtime/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/statistics.h"

namespace reprise::emulator {

std::string statistics_as_json(const Device& device) {
  const DeviceStatistics& it = device.statistics;
  return fmt::format(
      R"({{"device": {}, "profile": "{}", "launches": {}, "replays": {}, "updates": {}, "kernels": {}, )"
      R"("graph_kernels": {}, "other_tasks": {}, "bytes_read": {}, "bytes_written": {}, "multiply_adds": {}, )"
      R"("bytes_copied": {}, "kernel_time": {:.9f}, "device_time": {:.9f}, "host_time": {:.9f}, "streams": {}, )"
      R"("events": {}, "notifies": {}, "models": {}, "memory_bytes": {}}})",
      device.id, device.profile.name, it.launches, it.replays, it.updates, it.kernels, it.graph_kernels, it.other_tasks,
      it.bytes_read, it.bytes_written, it.multiply_adds, it.bytes_copied, it.kernel_time,
      std::max(0.0, it.clock - it.clock_at_reset), ThreadState::current().clock - it.host_clock_at_reset,
      device.streams.used(), device.events.used(), device.notifies.used(), device.models.used(),
      device.memory.capacity() - device.profile.memory_taken - device.memory.available());
}

Status write_statistics() {
  const char* path = std::getenv("REPRISE_ACL_STATISTICS");
  if (!path || !*path) return {};
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::ofstream file(path);
  const char* separator = "[\n";
  for (const std::shared_ptr<Device>& device : runtime.devices()) {
    const DeviceStatistics& it = device->statistics;
    if (device->contexts.empty() && it.launches + it.replays + it.other_tasks == 0) continue;
    file << separator << statistics_as_json(*device);
    separator = ",\n";
  }
  file << (*separator == '[' ? "[]\n" : "\n]\n");
  if (file.flush()) return {};
  return Status(ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_STATISTICS: cannot write '{}'", path));
}

}  // namespace reprise::emulator

size_t emulatorStatistics(int32_t device, char* text, size_t bytes) {
  using reprise::emulator::Runtime;
  Runtime& runtime = Runtime::instance();
  const reprise::emulator::Lock lock(runtime.mutex());
  const reprise::emulator::Device* found = runtime.device(device);
  if (!found) return 0;
  const std::string all = reprise::emulator::statistics_as_json(*found);
  if (text && bytes > 0) {
    const size_t kept = std::min(bytes - 1, all.size());
    std::memcpy(text, all.data(), kept);
    text[kept] = 0;
  }
  return all.size() + 1;
}

void emulatorResetStatistics(int32_t device) {
  using reprise::emulator::Runtime;
  Runtime& runtime = Runtime::instance();
  const reprise::emulator::Lock lock(runtime.mutex());
  reprise::emulator::Device* found = runtime.device(device);
  if (!found) return;
  const double clock = found->statistics.clock;
  found->statistics = {};
  found->statistics.clock = found->statistics.clock_at_reset = clock;
  found->statistics.host_clock_at_reset = reprise::emulator::ThreadState::current().clock;
}
