#include "emulator/runtime/host_task.h"

#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

namespace {

// The user's code may do anything to the host's memory, in the stream's order; what it sees, the host has seen.
void enter_host(TaskContext& context) {
  Validation& validation = Validation::instance();
  validation.host_saw(context.line);
  validation.host_function_ran();
}
void leave_host(TaskContext& context) {
  Validation::instance().acquire(context.line, Validation::instance().host_order());
}

}  // namespace

Status HostFunctionTask::run(TaskContext& context) const {
  enter_host(context);
  const Stream*& running = ThreadState::current().host_function_of;
  running = &context.stream;
  function_(arguments_);
  running = nullptr;
  leave_host(context);
  return {};
}

Status CallbackTask::run(TaskContext& context) const {
  Runtime& runtime = Runtime::instance();
  enter_host(context);
  Lock lock(runtime.mutex());
  const auto report = runtime.reports().push(thread_, function_, data_);
  if (block_ && context.wait(lock, [&] { return report->done; }) == TaskContext::Wait::kAborted) {
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a callback was aborted");
  }
  leave_host(context);
  return {};
}

}  // namespace reprise::emulator
