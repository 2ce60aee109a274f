#include "emulator/runtime/event.h"

#include <fmt/format.h>

#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Event::~Event() = default;

uint64_t Event::record_to_await() const {
  if (has_record()) return recorded;
  // Nothing to wait for yet: an ordinary event makes the stream wait for the record to come.
  return kind == Kind::kEx ? 0 : recorded + 1;
}

void Event::complete_record(uint64_t number, double clock, OrderPointer happened) {
  raised = true;
  // External events count no records.
  if (kind == Kind::kExternal) order = happened;
  if (number > completed) {
    order = std::move(happened);
    completed = number;
    time = Clock::now();
    model_clock = clock;
  }
  Runtime::instance().progress().notify_all();
}

Status EventRecordTask::run(TaskContext& context) const {
  const Lock lock(Runtime::instance().mutex());
  Validation& validation = Validation::instance();
  if (event_->kind == Event::Kind::kExternal) validation.external_recorded(event_->handle, event_->raised, *this);
  event_->complete_record(number_, context.clock, validation.release(context.line));
  return {};
}

std::string EventRecordTask::describe() const { return fmt::format("record event {}", event_->id); }

Status EventWaitTask::run(TaskContext& context) const {
  Lock lock(Runtime::instance().mutex());
  const bool external = event_->kind == Event::Kind::kExternal;
  const auto ready = [&] { return external ? event_->raised : event_->completed >= number_; };
  const TaskContext::Wait outcome = context.wait(lock, ready, limit_);
  if (event_->waits > 0) --event_->waits;
  context.clock = std::max(context.clock, event_->model_clock);
  if (outcome == TaskContext::Wait::kDone) {
    Validation::instance().acquire(context.line, event_->order);
    return {};
  }
  if (outcome == TaskContext::Wait::kAborted)
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a wait for an event was aborted");
  return Status(ACL_ERROR_RT_WAIT_TIMEOUT,
                fmt::format("event {} was not recorded within {} s", event_->id, limit_->count()));
}

std::string EventWaitTask::describe() const { return fmt::format("wait for event {}", event_->id); }

Status EventResetTask::run(TaskContext& /*context*/) const {
  const Lock lock(Runtime::instance().mutex());
  event_->raised = false;
  return {};
}

std::string EventResetTask::describe() const { return fmt::format("reset event {}", event_->id); }

}  // namespace reprise::emulator
