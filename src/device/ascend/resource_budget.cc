#include "device/ascend/resource_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::device::ascend {
namespace {

/// Kept back for the streams of the engine itself, of the runtime and of other users of the device.
constexpr int64_t kReservedStreams = 100;
constexpr int64_t kReservedEvents = 256;
/// A stream of a graph goes on in another one when its queue of 2048 tasks is full but for what the device keeps back.
constexpr int64_t kQueueTasks = 2048 - 64;

struct Share {
  int64_t each;     ///< that one size takes
  int64_t free;     ///< for all sizes
  int64_t at_most;  ///< sizes
  std::string text;
};

int64_t sizes_for(int64_t free, int64_t each) { return each <= 0 ? INT32_MAX : std::max<int64_t>(free, 0) / each; }

/// "; 35 sizes take 2275".
std::string wanted(const CaptureDemand& demand, int64_t each) {
  return fmt::format("; {} sizes take {}", demand.sizes.size(), static_cast<int64_t>(demand.sizes.size()) * each);
}

Share streams_share(const CaptureDemand& demand, const CaptureRoom& room) {
  const int64_t chained = demand.actions / kQueueTasks;
  const int64_t each = room.graphs_hold_streams ? demand.graphs * (demand.streams + chained) : 0;
  const int64_t free = room.streams - kReservedStreams;
  std::string text =
      each == 0 ? std::string("graphs hold no streams on this device")
                : fmt::format("floor(({} streams - {}) / ({} graphs x {} streams{})) = {}{}", room.streams,
                              kReservedStreams, demand.graphs, demand.streams + chained,
                              chained > 0 ? fmt::format(", {} of them because queues have 2048 places", chained) : "",
                              sizes_for(free, each), wanted(demand, each));
  return {each, free, sizes_for(free, each), std::move(text)};
}

Share events_share(const CaptureDemand& demand, const CaptureRoom& room) {
  // One behind each graph's replays, one behind those of the size.
  const int64_t each = demand.graphs + 1 + demand.external_events * room.events_per_external;
  const int64_t free = room.events - kReservedEvents;
  return {each, free, sizes_for(free, each),
          fmt::format("floor(({} events - {}) / {}) = {}{}", room.events, kReservedEvents, each, sizes_for(free, each),
                      wanted(demand, each))};
}

/// `count` of the sizes, evenly spread, the largest among them.
std::vector<int32_t> spread(const std::vector<int32_t>& sizes, int64_t count) {
  const auto all = static_cast<int64_t>(sizes.size());
  if (count >= all) return sizes;
  std::vector<int32_t> kept;
  for (int64_t i = 1; i <= count; ++i) kept.push_back(sizes[static_cast<size_t>(i * all / count - 1)]);
  return kept;
}

}  // namespace

CaptureRoom documented_room(std::string_view soc_name) {
  const auto of = [&](int64_t streams, int64_t events) {
    CaptureRoom room;
    room.streams = streams;
    room.events = events;
    room.source = fmt::format("documented for {}", soc_name.empty() ? "other devices" : soc_name);
    return room;
  };
  if (soc_name.starts_with("Ascend310P")) return of(1024, 1023);
  // "Ascend910B3" and "Ascend910_9391" are newer than "Ascend910A", "Ascend910ProB" and "Ascend910PremiumA".
  if (soc_name.starts_with("Ascend910B") || soc_name.starts_with("Ascend910_93") || soc_name.starts_with("Ascend950"))
    return of(1984, 65536);
  if (soc_name.starts_with("Ascend910")) return of(2048, 65536);
  return of(512, 1023);
}

CaptureBudget trim_captures(const CaptureDemand& demand, const CaptureRoom& room) {
  const Share streams = streams_share(demand, room);
  const Share events = events_share(demand, room);
  const int64_t at_most = std::min(streams.at_most, events.at_most);
  CaptureBudget budget;
  budget.sizes = spread(demand.sizes, at_most);
  std::string tried;
  if (budget.sizes.empty() && !demand.sizes.empty()) {
    // What is kept back may do for one.
    tried = fmt::format("; batch size {} is tried all the same", demand.sizes.back());
  }
  budget.text = fmt::format("{} of {} batch sizes can be captured ({}): streams: {}; events: {}{}", budget.sizes.size(),
                            demand.sizes.size(), room.source, streams.text, events.text, tried);
  if (!tried.empty()) budget.sizes = {demand.sizes.back()};
  return budget;
}

}  // namespace reprise::device::ascend
