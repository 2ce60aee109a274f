#include "device/ascend/emulated_costs.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::device::ascend {
namespace {

/// Writes one JSON object of numbers as text and gives the bytes that it takes; 0 for no such device.
using StatisticsFunction = size_t (*)(int32_t device, char* text, size_t bytes);

/// The number of a key in such an object; 0 when there is none.
double number_of(const std::string& json, std::string_view key) {
  const std::string quoted = std::string("\"").append(key).append("\":");
  const size_t place = json.find(quoted);
  return place == std::string::npos ? 0 : std::strtod(json.c_str() + place + quoted.size(), nullptr);
}

}  // namespace

std::optional<ModelledCosts> emulated_costs(const AclLibrary& library, int device_id) {
  const auto statistics = reinterpret_cast<StatisticsFunction>(library.find("emulatorStatistics"));
  if (statistics == nullptr) return std::nullopt;
  std::vector<char> text(4096);
  const size_t bytes = statistics(device_id, text.data(), text.size());
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  const std::string json(text.data());
  const auto count = [&](std::string_view key) { return static_cast<int64_t>(number_of(json, key)); };
  ModelledCosts costs;
  costs.launches = count("launches");
  costs.replays = count("replays");
  costs.updates = count("updates");
  costs.kernels = count("kernels");
  costs.graph_kernels = count("graph_kernels");
  costs.other_tasks = count("other_tasks");
  costs.bytes_read = count("bytes_read");
  costs.bytes_written = count("bytes_written");
  costs.bytes_copied = count("bytes_copied");
  costs.kernel_seconds = number_of(json, "kernel_time");
  costs.device_seconds = number_of(json, "device_time");
  costs.streams = count("streams");
  costs.events = count("events");
  costs.graphs = count("models");
  return costs;
}

}  // namespace reprise::device::ascend
