// Points on streams that other streams and the host wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "emulator/runtime/device_owner.h"
#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/validation/order.h"

namespace reprise::emulator {

class Capture;
class Device;

/// Guarded by Runtime::mutex().
class Event {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kEvent;

  enum class Kind {
    kOrdinary,  // aclrtCreateEvent, aclrtCreateEventWithFlag: a wait before the first record waits for it
    kEx,        // aclrtCreateEventExWithFlag: a wait before the first record passes; may fork and join captures
    kExternal,  // ACL_EVENT_EXTERNAL: a flag that devices set and clear, usable inside graphs
  };
  using Clock = std::chrono::steady_clock;

  Event(Device& owner, Kind type, uint32_t event_flags, uint32_t number)
      : device(owner), kind(type), flags(event_flags), id(number) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// A record that was submitted: its number, from 1. Earlier ones are older.
  uint64_t submit_record() { return ++recorded; }
  /// Takes back the newest record that submit_record() gave.
  void take_back_record() { --recorded; }
  /// What a wait that is submitted now waits for; 0: nothing.
  uint64_t record_to_await() const;
  bool complete() const { return completed >= recorded; }
  bool has_record() const { return recorded > reset_at; }

  // What a stream does when it gets there.
  void complete_record(uint64_t number, double model_clock, OrderPointer order);

  Device& device;
  const std::shared_ptr<Device> device_owner = owner_of(device);
  void* handle = nullptr;
  const Kind kind;
  const uint32_t flags;
  const uint32_t id;

  uint64_t recorded = 0;                  // newest record submitted
  uint64_t completed = 0;                 // newest record that a stream reached
  uint64_t reset_at = 0;                  // records up to this one are forgotten
  uint64_t waits = 0;                     // submitted and not yet over
  bool raised = false;                    // of an external event
  std::optional<Clock::time_point> time;  // of `completed`
  double model_clock = 0;
  OrderPointer order;  // what had happened by `completed`

  // The event's record inside a live capture, if its newest is one.
  std::weak_ptr<Capture> capture;
  size_t edge = 0;

  // How the external flags of record and wait have used it; it stays that way.
  enum class Direction { kNone, kRecord, kWait };
  Direction direction = Direction::kNone;
};

class EventRecordTask final : public Task {
 public:
  EventRecordTask(std::shared_ptr<Event> event, uint64_t number) : event_(std::move(event)), number_(number) {}
  TaskKind kind() const override { return TaskKind::kEventRecord; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;
  const std::shared_ptr<Event>& event() const { return event_; }

 private:
  std::shared_ptr<Event> event_;
  uint64_t number_;
};

class EventWaitTask final : public Task {
 public:
  /// Waits for record `number` (of an external event: until it is raised), at most `limit`.
  EventWaitTask(std::shared_ptr<Event> event, uint64_t number, std::optional<std::chrono::seconds> limit)
      : event_(std::move(event)), number_(number), limit_(limit) {}
  TaskKind kind() const override { return TaskKind::kEventWait; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;
  const std::shared_ptr<Event>& event() const { return event_; }

 private:
  std::shared_ptr<Event> event_;
  uint64_t number_;
  std::optional<std::chrono::seconds> limit_;
};

class EventResetTask final : public Task {
 public:
  explicit EventResetTask(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  TaskKind kind() const override { return TaskKind::kEventReset; }
  Status run(TaskContext& context) const override;
  std::string describe() const override;
  const std::shared_ptr<Event>& event() const { return event_; }

 private:
  std::shared_ptr<Event> event_;
};

}  // namespace reprise::emulator
