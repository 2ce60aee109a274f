#include "emulator/runtime/api_call.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "emulator/runtime/message_ring.h"

namespace reprise::emulator {
namespace {

std::atomic<bool> interface_initialized = false;
thread_local const ApiCall* current_call = nullptr;

}  // namespace

ApiCall::ApiCall(const char* name, CallKind kind, Needs needs, void* return_address, const char* names,
                 std::initializer_list<Argument> arguments)
    : name_(name), return_address_(return_address), outer_(current_call) {
  if (!outer_) current_call = this;
  if (Trace::instance().on()) arguments_ = Trace::render(names, arguments);
  if (needs != Needs::kNothing && !initialized()) {
    result(ACL_ERROR_UNINITIALIZE, "aclInit() was not called, or aclFinalize() was");
    return;
  }
  const std::optional<Status> fault = FaultPlan::instance().on_call(kind);
  if (!fault) return;
  if (needs == Needs::kInitAndEnd) {
    injected_ = *fault;
  } else {
    result(*fault);
  }
}

ApiCall::~ApiCall() {
  if (!outer_) current_call = nullptr;
  // Not traced at the beginning means no arguments: a trace that opened meanwhile (aclInit) shows none.
  Trace& trace = Trace::instance();
  if (!trace.on()) return;
  trace.write(name_, arguments_.empty() ? "{}" : arguments_, code_, text_, outer_ ? outer_->name_ : "");
}

aclError ApiCall::result(aclError code, std::string text) {
  code_ = code;
  text_ = std::move(text);
  if (code != ACL_SUCCESS) {
    const std::string_view reason = text_.empty() ? "failed" : std::string_view(text_);
    note_failure(code, fmt::format("[{}] {}: {}", code, name_, reason));
  }
  return code;
}

aclError ApiCall::answer(aclError code) {
  code_ = code;
  return code;
}

aclError ApiCall::null_argument(const char* argument) {
  return result(ACL_ERROR_INVALID_PARAM, fmt::format("argument '{}' is null", argument));
}

const ApiCall* ApiCall::current() { return current_call; }

void ApiCall::set_initialized(bool initialized) { interface_initialized = initialized; }

bool ApiCall::initialized() { return interface_initialized; }

}  // namespace reprise::emulator
