// What the runtime offers to libraries of operators beside the public interface.
#include <fmt/format.h>

#include "emulator/kernel.h"
#include "emulator/runtime/fault.h"
#include "emulator/runtime/message_ring.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/trace.h"

using reprise::emulator::CallKind;
using reprise::emulator::FaultPlan;
using reprise::emulator::Status;
using reprise::emulator::Trace;

int emulatorOperatorFault(const char* name) {
  const std::optional<Status> fault = FaultPlan::instance().on_call(CallKind::kOperator, name);
  return fault ? fault->code : 0;
}

void emulatorOperatorResult(const char* name, int code, const char* text) {
  const std::string_view reason = text ? text : "";
  if (std::string_view(name).ends_with("GetWorkspaceSize")) {
    reprise::emulator::Runtime& runtime = reprise::emulator::Runtime::instance();
    const reprise::emulator::Lock lock(runtime.mutex());
    reprise::emulator::ThreadState::current().clock += runtime.profile().timing.host_operator;
  }
  if (code != 0) {
    reprise::emulator::note_failure(code, fmt::format("[{}] {}: {}", code, name, reason.empty() ? "failed" : reason));
  }
  Trace::instance().write(name, "{}", code, reason);
}
