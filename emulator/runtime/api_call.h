// The frame around every function of the C interface.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "emulator/runtime/fault.h"
#include "emulator/runtime/status.h"
#include "emulator/runtime/trace.h"

namespace reprise::emulator {

// Made first in every extern "C" function, best by EMULATOR_CALL: checks that aclInit() was called, counts the call for
// injected faults, and at its end writes the trace. A failing result becomes the thread's last error and its text a
// message of aclGetRecentErrMsg().
class ApiCall {
 public:
  // kInitAndEnd: as kInit, but an injected fault is left to the function (injected()).
  enum class Needs { kInit, kNothing, kInitAndEnd };

  // `names` is "a, b, c" for the arguments that follow. All texts are static.
  ApiCall(const char* name, CallKind kind, Needs needs, void* return_address, const char* names,
          std::initializer_list<Argument> arguments);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  // True when the call must not go on: the interface is not initialised, or a fault was injected.
  bool refused() const { return code_ != ACL_SUCCESS; }
  aclError code() const { return code_; }
  // The fault of a call that ends something: a real failure would take down what it should end, so the function does
  // that first and answers this then.
  const Status& injected() const { return injected_; }

  // What the function returns.
  aclError result(aclError code) { return result(code, {}); }
  aclError result(aclError code, std::string text);
  aclError result(const Status& status) { return result(status.code, status.text); }
  // As result() of success, for a call whose answer is `code` whether or not it failed.
  aclError answer(aclError code);
  // A text for the trace of a call that did not fail.
  void say(std::string text) { text_ = std::move(text); }
  // What the trace shows instead of the arguments that were given at the beginning: an object of JSON.
  void set_arguments(std::string arguments) { arguments_ = std::move(arguments); }
  // 100000, for an argument that must not be null.
  aclError null_argument(const char* argument);

  const char* name() const { return name_; }
  void* return_address() const { return return_address_; }

  // The outermost call that this thread is in, which is the one that the user wrote; null outside of calls.
  static const ApiCall* current();
  // Between aclInit() and aclFinalize().
  static void set_initialized(bool initialized);
  static bool initialized();

 private:
  const char* name_;
  void* return_address_;
  const ApiCall* outer_;
  aclError code_ = ACL_SUCCESS;
  std::string text_;
  Status injected_;
  std::string arguments_;  // rendered at once, since calls change what arguments point to; empty without a trace
};

}  // namespace reprise::emulator

// First line of a function of the interface: makes `call` and returns when it must not go on. `kind` is an enumerator
// of CallKind without its prefix k; the arguments of the function follow by name.
#define EMULATOR_CALL_NEEDS(needs, kind, ...)                                                                \
  ::reprise::emulator::ApiCall call(__func__, ::reprise::emulator::CallKind::k##kind,                        \
                                    ::reprise::emulator::ApiCall::Needs::needs, __builtin_return_address(0), \
                                    #__VA_ARGS__, {__VA_ARGS__});                                            \
  if (call.refused()) return call.code()
#define EMULATOR_CALL(kind, ...) EMULATOR_CALL_NEEDS(kInit, kind __VA_OPT__(, ) __VA_ARGS__)
