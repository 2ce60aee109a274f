#include "emulator/runtime/task.h"

#include <algorithm>

#include "emulator/runtime/device.h"
#include "emulator/runtime/replay.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Task::~Task() {
  if (notes) Validation::instance().forget(*this);
}

const char* name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kKernel:
      return "kernel";
    case TaskKind::kCopy:
      return "copy";
    case TaskKind::kFill:
      return "fill";
    case TaskKind::kEventRecord:
      return "event record";
    case TaskKind::kEventWait:
      return "event wait";
    case TaskKind::kEventReset:
      return "event reset";
    case TaskKind::kNotifyRecord:
      return "notify record";
    case TaskKind::kNotifyWait:
      return "notify wait";
    case TaskKind::kValueWrite:
      return "value write";
    case TaskKind::kValueWait:
      return "value wait";
    case TaskKind::kHostFunction:
      return "host function";
    case TaskKind::kCallback:
      return "callback";
    case TaskKind::kReplay:
      return "replay";
    case TaskKind::kUpdate:
      return "task update";
    case TaskKind::kEdgeRecord:
      return "edge record";
    case TaskKind::kEdgeWait:
      return "edge wait";
    case TaskKind::kCondition:
      return "condition";
  }
  return "task";
}

double Task::account(const Profile& profile, bool /*in_graph*/, DeviceStatistics& statistics) const {
  ++statistics.other_tasks;
  return profile.timing.task;
}

bool TaskContext::aborted() const {
  return stream.aborting() || Runtime::instance().ending() || (replay && replay->failed());
}

TaskContext::Wait TaskContext::wait(Lock& lock, const std::function<bool()>& ready,
                                    std::optional<std::chrono::milliseconds> limit) const {
  std::condition_variable& progress = Runtime::instance().progress();
  const auto done = [&] { return aborted() || ready(); };
  if (!limit) {
    progress.wait(lock, done);
  } else if (!progress.wait_for(lock, *limit, done)) {
    return Wait::kTimeout;
  }
  return ready() ? Wait::kDone : Wait::kAborted;
}

Status execute(const Task& task, TaskContext& context) {
  Status status = task.run(context);
  const Lock lock(Runtime::instance().mutex());
  Device& device = context.device;
  context.clock += task.account(device.profile, context.replay != nullptr, device.statistics);
  device.statistics.clock = std::max(device.statistics.clock, context.clock);
  return status;
}

}  // namespace reprise::emulator
