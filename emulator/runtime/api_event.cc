// Events.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/event_calls.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kEventFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

Status create(aclrtEvent* handle, Event::Kind kind, uint32_t flags) {
  const bool external = (flags & ACL_EVENT_EXTERNAL) != 0;
  if (flags == 0 || (flags & ~kEventFlags) != 0 ||
      (external && (flags != ACL_EVENT_EXTERNAL || kind == Event::Kind::kEx))) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{:#x} are no flags of such an event", flags));
  }
  if (external) kind = Event::Kind::kExternal;
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  if (Status status = runtime.current_device(&device); !status.ok()) return status;
  if (!device->events.take()) {
    return Status(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                  fmt::format("all {} events of device {} are taken", device->events.limit(), device->id));
  }
  auto event = std::make_shared<Event>(*device, kind, flags, static_cast<uint32_t>(runtime.next_id()));
  event->handle = runtime.handles().add(event);
  *handle = event->handle;
  Validation::instance().created(ObjectKind::kEvent, event->handle, device->id);
  return {};
}

// The two objects of most calls, in the order in which their handles are checked.
struct EventAndStream {
  std::shared_ptr<Event> event;
  std::shared_ptr<Stream> stream;

  Status find(aclrtEvent event_handle, aclrtStream stream_handle) {
    if (Status status = Runtime::instance().find_stream(stream_handle, stream); !status.ok()) return status;
    return find_event(event_handle, event);
  }
};

Status record(aclrtEvent event, aclrtStream stream, bool external) {
  const Lock lock(Runtime::instance().mutex());
  EventAndStream both;
  if (Status status = both.find(event, stream); !status.ok()) return status;
  return external ? record_external(*both.stream, both.event) : record_event(*both.stream, both.event);
}

Status wait(aclrtEvent event, aclrtStream stream, std::optional<std::chrono::seconds> limit) {
  const Lock lock(Runtime::instance().mutex());
  EventAndStream both;
  if (Status status = both.find(event, stream); !status.ok()) return status;
  return wait_event(both.stream, both.event, limit);
}

Status synchronize(aclrtEvent handle, std::optional<std::chrono::milliseconds> limit) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Event> event;
  if (Status status = find_event(handle, event); !status.ok()) return status;
  if (Status status = refuse_host_use(*event); !status.ok()) return status;
  const uint64_t number = event->recorded;
  // A reset of the device destroys the event, and nothing will reach its record.
  const auto ready = [&] {
    return event->completed >= number || !event->device.error().ok() || runtime.ending() ||
           !runtime.handles().find<Event>(handle);
  };
  if (!limit) {
    runtime.progress().wait(lock, ready);
  } else if (!runtime.progress().wait_for(lock, *limit, ready)) {
    return Status(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                  fmt::format("event {} did not complete within {} ms", event->id, limit->count()));
  }
  Validation::instance().host_saw(event->order);
  return event->device.error();
}

Status query(aclrtEvent handle, bool& complete) {
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Event> event;
  if (Status status = find_event(handle, event); !status.ok()) return status;
  if (Status status = refuse_host_use(*event); !status.ok()) return status;
  const bool recorded = event->has_record() || event->kind == Event::Kind::kEx;
  complete = recorded && event->complete();
  if (complete) Validation::instance().host_saw(event->order);
  return {};
}

// A time-out of 0 seconds: no limit.
std::optional<std::chrono::seconds> limit_of(uint32_t timeout) {
  return timeout > 0 ? std::optional(std::chrono::seconds(timeout)) : std::nullopt;
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent* event) {
  EMULATOR_CALL(Event, event);
  EMULATOR_REQUIRE(event);
  return call.result(create(event, Event::Kind::kOrdinary, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  EMULATOR_CALL(Event, event, flag);
  EMULATOR_REQUIRE(event);
  return call.result(create(event, Event::Kind::kOrdinary, flag));
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  EMULATOR_CALL(Event, event, flag);
  EMULATOR_REQUIRE(event);
  return call.result(create(event, Event::Kind::kEx, flag));
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  EMULATOR_CALL(Other, event);
  EMULATOR_REQUIRE(event);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Event> found;
  if (Status status = find_event(event, found); !status.ok()) {
    Validation::instance().destroy_refused(ObjectKind::kEvent, event);
    return call.result(status);
  }
  Validation::instance().destroyed(event);
  runtime.handles().remove(event);
  found->device.events.give_back();
  return call.result(ACL_SUCCESS);
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  EMULATOR_CALL(Event, event, stream);
  EMULATOR_REQUIRE(event);
  return call.result(record(event, stream, /*external=*/false));
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  EMULATOR_CALL(Event, event, stream, flag);
  EMULATOR_REQUIRE(event);
  if (flag > ACL_EVENT_RECORD_EXTERNAL) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no flag of a record", flag));
  }
  return call.result(record(event, stream, flag == ACL_EVENT_RECORD_EXTERNAL));
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  EMULATOR_CALL(Event, stream, event);
  EMULATOR_REQUIRE(event);
  return call.result(wait(event, stream, std::nullopt));
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag) {
  EMULATOR_CALL(Event, stream, event, timeout, flag);
  EMULATOR_REQUIRE(event);
  if (flag > ACL_EVENT_WAIT_EXTERNAL) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no flag of a wait", flag));
  }
  if (flag == ACL_EVENT_WAIT_DEFAULT) return call.result(wait(event, stream, limit_of(timeout)));
  const Lock lock(Runtime::instance().mutex());
  EventAndStream both;
  EMULATOR_TRY(both.find(event, stream));
  return call.result(wait_external(*both.stream, both.event, timeout));
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  EMULATOR_CALL(Event, stream, event, timeout);
  EMULATOR_REQUIRE(event);
  if (timeout < 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is not negative, and {} is", timeout));
  }
  return call.result(wait(event, stream, limit_of(static_cast<uint32_t>(timeout))));
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  EMULATOR_CALL(Event, event, stream);
  EMULATOR_REQUIRE(event);
  const Lock lock(Runtime::instance().mutex());
  EventAndStream both;
  EMULATOR_TRY(both.find(event, stream));
  return call.result(reset_event(*both.stream, both.event));
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  EMULATOR_CALL(Other, event, status);
  EMULATOR_REQUIRE(event);
  EMULATOR_REQUIRE(status);
  bool complete = false;
  EMULATOR_TRY(query(event, complete));
  *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return call.result(ACL_SUCCESS);
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  EMULATOR_CALL(Other, event, status);
  EMULATOR_REQUIRE(event);
  EMULATOR_REQUIRE(status);
  bool complete = false;
  EMULATOR_TRY(query(event, complete));
  *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return call.result(ACL_SUCCESS);
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  EMULATOR_CALL(Other, event, status);
  EMULATOR_REQUIRE(event);
  EMULATOR_REQUIRE(status);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Event> found;
  EMULATOR_TRY(find_event(event, found));
  EMULATOR_TRY(refuse_host_use(*found));
  *status = found->waits == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return call.result(ACL_SUCCESS);
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  EMULATOR_CALL(Sync, event);
  EMULATOR_REQUIRE(event);
  return call.result(synchronize(event, std::nullopt));
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  EMULATOR_CALL(Sync, event, timeout);
  EMULATOR_REQUIRE(event);
  if (timeout < -1 || timeout == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is -1 or positive, not {}", timeout));
  }
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::milliseconds(timeout);
  return call.result(synchronize(event, limit));
}

namespace {

Status check_time(const Event& event) {
  if (Status status = refuse_host_use(event); !status.ok()) return status;
  if ((event.flags & ACL_EVENT_TIME_LINE) == 0) {
    return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                  fmt::format("event {} keeps no time: it lacks ACL_EVENT_TIME_LINE", event.id));
  }
  if (event.has_record() && event.complete() && event.time) return {};
  return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                fmt::format("event {} is not recorded, or not complete yet", event.id));
}

}  // namespace

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  EMULATOR_CALL(Other, ms, startEvent, endEvent);
  EMULATOR_REQUIRE(ms);
  EMULATOR_REQUIRE(startEvent);
  EMULATOR_REQUIRE(endEvent);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  EMULATOR_TRY(find_event(startEvent, start));
  EMULATOR_TRY(find_event(endEvent, end));
  EMULATOR_TRY(check_time(*start));
  EMULATOR_TRY(check_time(*end));
  const std::chrono::duration<float, std::milli> elapsed = *end->time - *start->time;
  if (elapsed.count() < 0) {
    return call.result(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end came before the start");
  }
  *ms = elapsed.count();
  return call.result(ACL_SUCCESS);
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  EMULATOR_CALL(Other, event, timestamp);
  EMULATOR_REQUIRE(event);
  EMULATOR_REQUIRE(timestamp);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Event> found;
  EMULATOR_TRY(find_event(event, found));
  EMULATOR_TRY(check_time(*found));
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(found->time->time_since_epoch());
  *timestamp = static_cast<uint64_t>(since.count());
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  EMULATOR_CALL(Other, event, eventId);
  EMULATOR_REQUIRE(event);
  EMULATOR_REQUIRE(eventId);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Event> found;
  EMULATOR_TRY(find_event(event, found));
  *eventId = found->id;
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  EMULATOR_CALL(Other, eventCount);
  EMULATOR_REQUIRE(eventCount);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  *eventCount = device->events.available();
  return call.result(ACL_SUCCESS);
}
