#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/event.h"

namespace reprise::device::cpu {

class CaptureSession;

/// What an event is apart from its handle; queues and graphs that refer to it keep it alive.
class EventState {
 public:
  explicit EventState(EventKind event_kind) : kind(event_kind) {}
  const EventKind kind;

  // Ordinary events. Each record takes the next ticket: a wait refers to the ticket of the record before it, and
  // records on several streams may be reached in any order.
  uint64_t recorded = 0;  ///< last ticket; guarded by the core's mutex
  /// Whether the work before a record has been done.
  bool is_reached(uint64_t ticket) const;
  /// Notes that. By the executing thread only.
  void reach(uint64_t ticket);
  /// When the newest of the records that were reached was reached.
  int64_t time_ns() const { return time_ns_.load(std::memory_order_relaxed); }

  // While the last record lies in a live capture (guarded by the core's mutex).
  CaptureSession* capture = nullptr;
  uint32_t edge = 0;

  /// External events: one record is there to be consumed. Belongs to the executing thread.
  bool signalled = false;

 private:
  std::atomic<uint64_t> reached_through_{0};  ///< all tickets up to here; written by the executing thread
  std::atomic<int64_t> time_ns_{0};
  uint64_t newest_ = 0;  ///< ticket of that time; the executing thread's
  mutable std::mutex early_mutex_;
  std::vector<uint64_t> early_;  ///< reached although earlier ones are not; changed by the executing thread
};

}  // namespace reprise::device::cpu
