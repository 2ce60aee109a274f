#include "emulator/runtime/event_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/capture.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/replay.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/submit.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {
namespace {

// Record and wait with the external flags: the replay knows which occurrence is meant.
class ExternalRecordTask final : public Task {
 public:
  explicit ExternalRecordTask(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  TaskKind kind() const override { return TaskKind::kEventRecord; }
  Status run(TaskContext& context) const override {
    const Lock lock(Runtime::instance().mutex());
    event_->complete_record(context.replay->binding(*event_), context.clock,
                            Validation::instance().release(context.line));
    return {};
  }
  std::string describe() const override { return fmt::format("record event {} for the outside", event_->id); }

 private:
  std::shared_ptr<Event> event_;
};

class ExternalWaitTask final : public Task {
 public:
  explicit ExternalWaitTask(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  TaskKind kind() const override { return TaskKind::kEventWait; }
  Status run(TaskContext& context) const override {
    Lock lock(Runtime::instance().mutex());
    const uint64_t number = context.replay->binding(*event_);
    if (context.wait(lock, [&] { return event_->completed >= number; }) == TaskContext::Wait::kAborted) {
      return Status(ACL_ERROR_RT_STREAM_ABORT, "a wait for an event was aborted");
    }
    context.clock = std::max(context.clock, number > 0 ? event_->model_clock : 0.0);
    if (number > 0) Validation::instance().acquire(context.line, event_->order);
    return {};
  }
  std::string describe() const override { return fmt::format("wait for event {} of the outside", event_->id); }

 private:
  std::shared_ptr<Event> event_;
};

double host_seconds(const Stream& stream) { return stream.device().profile.timing.host_call; }

// Checks that record, wait and reset on a capturing stream share.
Status check_captured_use(Stream& stream, const Event& event, const char* what) {
  Capture& capture = *stream.capture;
  if (!capture.active()) return capture.invalidated();
  if (event.flags & ACL_EVENT_IPC) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an event between processes cannot be used in a capture");
  }
  if (event.kind == Event::Kind::kOrdinary) {
    return Status(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "an event of aclrtCreateEvent cannot be used in a capture; aclrtCreateEventExWithFlag makes one that can");
  }
  return capture.refuse_in_group(stream, what);
}

// An event that another live capture recorded: both captures end.
Status check_conflict(Stream& stream, const Event& event) {
  const std::shared_ptr<Capture> other = event.capture.lock();
  if (!stream.capture || !other || other == stream.capture) return {};
  const std::string text =
      fmt::format("event {} was recorded in the capture of another graph, {}", event.id, other->graph->id);
  stream.capture->invalidate(text);
  other->invalidate(fmt::format("its event {} was used in the capture of another graph", event.id));
  return Status(ACL_ERROR_STREAM_CAPTURE_CONFLICT, text);
}

Status check_default_stream(const Stream& stream, const Event& event) {
  if (!stream.is_default() || event.capture.expired()) return {};
  return Status(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                fmt::format("the default stream cannot use event {}, which a capture recorded", event.id));
}

Status external_use(Stream& stream, const std::shared_ptr<Event>& event, Event::Direction direction) {
  if (!stream.capture) {
    return Status(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                  fmt::format("external record and wait need a capture, and stream {} is not capturing", stream.id));
  }
  if (event->kind != Event::Kind::kEx || !(event->flags & ACL_EVENT_SYNC)) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "external record and wait need an event of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC");
  }
  if (!stream.device().profile.features.software_sq) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "external record and wait need a driver with software queues");
  }
  Capture& capture = *stream.capture;
  if (capture.graph->parent) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "external record and wait cannot be inside a conditional task");
  }
  std::vector<std::shared_ptr<Event>>& used = capture.graph->external_events;
  if (std::find(used.begin(), used.end(), event) != used.end()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("event {} is external in this graph already", event->id));
  }
  if (event->direction != Event::Direction::kNone && event->direction != direction) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("event {} was used for external {} before, and stays so", event->id,
                              event->direction == Event::Direction::kRecord ? "records" : "waits"));
  }
  TaskPointer task;
  if (direction == Event::Direction::kRecord) {
    task = std::make_shared<ExternalRecordTask>(event);
  } else {
    task = std::make_shared<ExternalWaitTask>(event);
  }
  if (Status status = capture.append(stream, std::move(task)); !status.ok()) return status;
  event->direction = direction;
  used.push_back(event);
  return {};
}

}  // namespace

Status record_event(Stream& stream, const std::shared_ptr<Event>& event) {
  if (Status status = check_default_stream(stream, *event); !status.ok()) return status;
  if (stream.capture) {
    if (Status status = check_captured_use(stream, *event, "event record"); !status.ok()) return status;
    if (event->kind == Event::Kind::kExternal) {
      return submit(stream, std::make_shared<EventRecordTask>(event, 0), host_seconds(stream));
    }
    if (!stream.device().profile.features.software_sq) {
      if (Status status = check_conflict(stream, *event); !status.ok()) return status;
    }
    return stream.capture->add_record(stream, event);
  }
  const uint64_t number = event->kind == Event::Kind::kExternal ? 0 : event->submit_record();
  Status status = submit(stream, std::make_shared<EventRecordTask>(event, number), host_seconds(stream));
  if (!status.ok()) {
    if (number > 0) event->take_back_record();
    return status;
  }
  if (event->kind == Event::Kind::kOrdinary) Validation::instance().old_event_recorded(event->handle, event->waits);
  event->capture.reset();
  return {};
}

Status wait_event(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event,
                  std::optional<std::chrono::seconds> limit) {
  if (Status status = check_default_stream(*stream, *event); !status.ok()) return status;
  if (const std::shared_ptr<Capture> capture = event->capture.lock()) {
    if (Status status = check_conflict(*stream, *event); !status.ok()) return status;
    if (!capture->active()) return capture->invalidated();
    if (stream->update) return submit(*stream, std::make_shared<EventWaitTask>(event, 0, limit), 0);
    if (Status status = capture->refuse_in_group(*stream, "event wait"); !status.ok()) return status;
    if (!stream->capture) {
      if (Status status = capture->join(stream); !status.ok()) return status;
    }
    return capture->add_wait(*stream, event->edge);
  }
  if (stream->capture) {
    if (Status status = check_captured_use(*stream, *event, "event wait"); !status.ok()) return status;
    if (event->kind == Event::Kind::kEx) {
      if (event->recorded == 0) return {};
      return Status(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                    fmt::format("event {} was last recorded outside of the capture", event->id));
    }
  }
  const uint64_t number = event->kind == Event::Kind::kExternal ? 0 : event->record_to_await();
  if (event->kind == Event::Kind::kEx && number == 0 && !stream->update) return {};
  Status status = submit(*stream, std::make_shared<EventWaitTask>(event, number, limit), host_seconds(*stream));
  if (status.ok() && !stream->capture) ++event->waits;
  return status;
}

Status reset_event(Stream& stream, const std::shared_ptr<Event>& event) {
  if (Status status = check_default_stream(stream, *event); !status.ok()) return status;
  if (Status status = check_conflict(stream, *event); !status.ok()) return status;
  if (event->kind == Event::Kind::kEx) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an event of aclrtCreateEventExWithFlag cannot be reset");
  }
  if (stream.capture) {
    if (Status status = check_captured_use(stream, *event, "event reset"); !status.ok()) return status;
  }
  Status status = submit(stream, std::make_shared<EventResetTask>(event), host_seconds(stream));
  if (status.ok() && !stream.capture) event->reset_at = event->recorded;
  return status;
}

Status record_external(Stream& stream, const std::shared_ptr<Event>& event) {
  return external_use(stream, event, Event::Direction::kRecord);
}

Status wait_external(Stream& stream, const std::shared_ptr<Event>& event, uint32_t timeout) {
  if (timeout != 0 && stream.capture) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, "an external wait has no time limit: its time-out must be 0");
  }
  return external_use(stream, event, Event::Direction::kWait);
}

Status refuse_host_use(const Event& event) {
  if (!event.capture.expired()) {
    return Status(ACL_ERROR_RT_EVENT_CAPTURED,
                  fmt::format("event {} was recorded in a capture that is still going on", event.id));
  }
  if (event.kind == Event::Kind::kExternal) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  fmt::format("the host cannot wait for or ask event {}: it is external", event.id));
  }
  return {};
}

Status find_event(aclrtEvent handle, std::shared_ptr<Event>& event) {
  const HandleTable& handles = Runtime::instance().handles();
  event = handles.find<Event>(handle);
  if (event) return {};
  return Status(ACL_ERROR_RT_INVALID_HANDLE,
                fmt::format("{} is no event{}", handle,
                            handles.was_destroyed<Event>(handle) ? " any more: it was destroyed" : ""));
}

}  // namespace reprise::emulator
