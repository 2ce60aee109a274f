// What the runtime offers to libraries of operators beside the public interface.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulator/kernel.h"
#include "emulator/objects.h"
#include "emulator/runtime/api_call.h"
#include "emulator/runtime/fault.h"
#include "emulator/runtime/own_code.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/trace.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace): the interface is outside of it

namespace {

// Reports keep the names of calls for as long as the process lives.
const char* kept(const char* name) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  const std::lock_guard lock(*mutex);
  const auto known = names->find(std::string_view(name));
  return (known == names->end() ? *names->emplace(name).first : *known).c_str();
}

// Phases of operators that this thread is in.
std::vector<std::unique_ptr<ApiCall>>& phases() {
  thread_local std::vector<std::unique_ptr<ApiCall>> calls;
  return calls;
}

}  // namespace

int emulatorOperatorFault(const char* name) {
  add_own_code(__builtin_return_address(0));
  phases().push_back(std::make_unique<ApiCall>(kept(name), CallKind::kOperator, ApiCall::Needs::kNothing,
                                               __builtin_return_address(0), "", std::initializer_list<Argument>{}));
  return phases().back()->code();
}

void emulatorOperatorResult(const char* name, int code, const char* text) {
  if (std::string_view(name).ends_with("WorkspaceSize")) {
    Runtime& runtime = Runtime::instance();
    const Lock lock(runtime.mutex());
    ThreadState::current().clock += runtime.profile().timing.host_operator;
  }
  std::vector<std::unique_ptr<ApiCall>>& calls = phases();
  if (calls.empty() || std::string_view(calls.back()->name()) != name) (void)emulatorOperatorFault(name);
  // An injected fault has said so already.
  if (calls.back()->code() == ACL_SUCCESS) calls.back()->result(code, text ? text : "");
  calls.pop_back();
}

void emulatorOperatorArguments(const char* arguments) {
  if (!phases().empty()) phases().back()->set_arguments(arguments);
}

void* emulatorCallBegin(const char* name, void* return_address) {
  add_own_code(__builtin_return_address(0));
  return new ApiCall(name, CallKind::kOther, ApiCall::Needs::kNothing, return_address, "",
                     std::initializer_list<Argument>{});
}

void emulatorCallEnd(void* call, int code, const char* text, const char* arguments) {
  const std::unique_ptr<ApiCall> ended(static_cast<ApiCall*>(call));
  if (arguments) ended->set_arguments(arguments);
  ended->result(code, text ? text : "");
}

bool emulatorTraces() { return Trace::instance().on(); }

void emulatorObjectEvent(ObjectEvent event, ObjectKind kind, const void* object) {
  Validation& validation = Validation::instance();
  switch (event) {
    case ObjectEvent::kCreated:
      return validation.created(kind, object, /*device=*/-1);
    case ObjectEvent::kDestroyed:
      return validation.destroyed(object);
    case ObjectEvent::kDestroyedAgain:
      return validation.destroy_refused(kind, object);
    case ObjectEvent::kUsedDestroyed:
      return validation.use_refused(kind, object);
  }
}
