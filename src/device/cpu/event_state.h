#pragma once

#include <atomic>
#include <cstdint>

#include "device/event.h"

namespace reprise::device::cpu {

class CaptureSession;
class StreamQueue;

/// What an event is apart from its handle; queues and graphs that refer to it keep it alive.
struct EventState {
  explicit EventState(EventKind event_kind) : kind(event_kind) {}
  const EventKind kind;

  // Ordinary events. A record takes the next ticket, and reaches `completed` when it has run: a wait for ticket t may
  // go on from then on.
  uint64_t recorded = 0;               ///< guarded by the core's mutex
  std::atomic<uint64_t> completed{0};  ///< written by the executing thread
  std::atomic<int64_t> time_ns{0};     ///< of the last completed record

  // While the last record lies in a live capture (guarded by the core's mutex).
  CaptureSession* capture = nullptr;
  uint32_t edge = 0;

  /// External events: one record is there to be consumed. Belongs to the executing thread.
  bool signalled = false;
};

}  // namespace reprise::device::cpu
