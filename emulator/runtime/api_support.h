// What the functions of the C interface have in common.
#pragma once

#include "emulator/runtime/api_call.h"
#include "emulator/runtime/interface.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/thread_state.h"

// Leaves a function of the interface whose `call` is made: for an argument that must not be null, and for a failed
// Status.
#define EMULATOR_REQUIRE(argument) \
  if (!(argument)) return call.null_argument(#argument)
#define EMULATOR_TRY(expression) \
  if (::reprise::emulator::Status attempted = (expression); !attempted.ok()) return call.result(attempted)
// What ends work on a device waits for the host function that runs there, so that one cannot call it.
#define EMULATOR_OUTSIDE_HOST_FUNCTIONS                                                                       \
  if (::reprise::emulator::ThreadState::current().host_function_of) {                                         \
    return call.result(ACL_ERROR_RT_PARAM_INVALID, "a host function of a stream would wait here for itself"); \
  }
