#include "emulator/runtime/host_task.h"

#include "emulator/runtime/runtime.h"

namespace reprise::emulator {

Status HostFunctionTask::run(TaskContext& /*context*/) const {
  function_(arguments_);
  return {};
}

Status CallbackTask::run(TaskContext& context) const {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  const auto report = runtime.reports().push(thread_, function_, data_);
  if (block_ && context.wait(lock, [&] { return report->done; }) == TaskContext::Wait::kAborted) {
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a callback was aborted");
  }
  return {};
}

}  // namespace reprise::emulator
