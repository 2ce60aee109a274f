#include "emulator/runtime/notify.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {
namespace {

bool holds(uint64_t word, uint64_t value, uint32_t comparison) {
  switch (comparison) {
    case ACL_VALUE_WAIT_GEQ:
      return static_cast<int64_t>(word - value) >= 0;
    case ACL_VALUE_WAIT_EQ:
      return word == value;
    case ACL_VALUE_WAIT_AND:
      return (word & value) != 0;
    default:
      return ~(word | value) != 0;
  }
}

// Kernels and copies change words without telling anybody, so a wait looks again after this time.
constexpr std::chrono::milliseconds kPoll{1};

Status bad_word(Device& device, const void* address) {
  const Status status(ACL_ERROR_RT_AICORE_EXCEPTION,
                      fmt::format("the word at {} is not in live device memory", address));
  device.fail(status);
  return status;
}

}  // namespace

Status NotifyRecordTask::run(TaskContext& context) const {
  const Lock lock(Runtime::instance().mutex());
  notify_->raised = true;
  notify_->model_clock = context.clock;
  notify_->order = Validation::instance().release(context.line);
  Runtime::instance().progress().notify_all();
  return {};
}

Status NotifyWaitTask::run(TaskContext& context) const {
  Lock lock(Runtime::instance().mutex());
  const TaskContext::Wait outcome = context.wait(lock, [&] { return notify_->raised; }, limit_);
  if (outcome == TaskContext::Wait::kAborted)
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a wait for a notify was aborted");
  if (outcome == TaskContext::Wait::kTimeout)
    return Status(ACL_ERROR_RT_WAIT_TIMEOUT, "a notify was not recorded in time");
  notify_->raised = false;
  context.clock = std::max(context.clock, notify_->model_clock);
  Validation::instance().acquire(context.line, notify_->order);
  return {};
}

Status ValueWriteTask::run(TaskContext& context) const {
  const Lock lock(Runtime::instance().mutex());
  if (!context.device.memory.store_word(address, value)) return bad_word(context.device, address);
  context.device.note_word(address, context.clock, Validation::instance().release(context.line));
  Validation::instance().word_written(address, value, *this);
  Runtime::instance().progress().notify_all();
  return {};
}

std::string ValueWriteTask::describe() const { return fmt::format("write {} to the word at {}", value, address); }

Status ValueWaitTask::run(TaskContext& context) const {
  Lock lock(Runtime::instance().mutex());
  for (;;) {
    bool live = true;
    const auto ready = [&] {
      const std::optional<uint64_t> word = context.device.memory.load_word(address);
      live = word.has_value();
      return !live || holds(*word, value, comparison);
    };
    const TaskContext::Wait outcome = context.wait(lock, ready, kPoll);
    if (outcome == TaskContext::Wait::kTimeout) continue;
    if (outcome == TaskContext::Wait::kAborted)
      return Status(ACL_ERROR_RT_STREAM_ABORT, "a wait for a value was aborted");
    if (!live) return bad_word(context.device, address);
    context.clock = std::max(context.clock, context.device.word_clock(address));
    Validation::instance().acquire(context.line, context.device.word_order(address));
    Validation::instance().word_seen(address);
    return {};
  }
}

std::string ValueWaitTask::describe() const {
  static constexpr const char* kSigns[] = {">=", "==", "&", "nor"};
  return fmt::format("wait until the word at {} {} {}", address, kSigns[comparison & 3], value);
}

}  // namespace reprise::emulator
