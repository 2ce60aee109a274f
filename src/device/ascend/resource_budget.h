#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/capture_budget.h"

namespace reprise::device::ascend {

/// What a device has for captured graphs.
struct CaptureRoom {
  int64_t streams = 0;  ///< free now, or of the device where it does not tell
  int64_t events = 0;   ///< likewise
  std::string source;   ///< where the numbers come from: "told by the device", "of an Ascend910B"
  /// Whether a graph holds a stream for each one captured until it is destroyed. With drivers that schedule graphs in
  /// software it holds none.
  bool graphs_hold_streams = true;
  /// Of the runtime's own, for each external event; 0 where they are words of memory.
  int64_t events_per_external = 0;
};

/// Streams and events of a device of this kind, for runtimes that do not tell what is free. The numbers are those of
/// CANN's documentation of aclrtCreateStream and aclrtCreateEvent.
CaptureRoom documented_room(std::string_view soc_name);

/// Keeps as many sizes as there is room for, spread evenly and with the largest among them; that one in any case, as
/// what is kept back for others may do for it, and a capture that fails costs its size alone. A graph of n streams
/// takes n of the device's, one more for each 2048 tasks of a stream, and an event behind its replays.
CaptureBudget trim_captures(const CaptureDemand& demand, const CaptureRoom& room);

}  // namespace reprise::device::ascend
