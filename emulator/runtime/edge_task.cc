#include "emulator/runtime/edge_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/replay.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Status EdgeRecordTask::run(TaskContext& context) const {
  const Lock lock(Runtime::instance().mutex());
  context.replay->pass(edge, context.clock, Validation::instance().release(context.line));
  return {};
}

std::string EdgeRecordTask::describe() const { return fmt::format("record edge {}", edge); }

Status EdgeWaitTask::run(TaskContext& context) const {
  Lock lock(Runtime::instance().mutex());
  const Replay& replay = *context.replay;
  if (context.wait(lock, [&] { return replay.passed(edge); }) == TaskContext::Wait::kAborted) {
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a wait inside a graph was aborted");
  }
  context.clock = std::max(context.clock, replay.clock_of(edge));
  Validation::instance().acquire(context.line, replay.order_of(edge));
  return {};
}

std::string EdgeWaitTask::describe() const { return fmt::format("wait for edge {}", edge); }

}  // namespace reprise::emulator
