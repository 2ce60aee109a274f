// What the functions of the C interface have in common.
#pragma once

#include "emulator/runtime/api_call.h"
#include "emulator/runtime/interface.h"
#include "emulator/runtime/runtime.h"

// Leaves a function of the interface whose `call` is made: for an argument that must not be null, and for a failed
// Status.
#define EMULATOR_REQUIRE(argument) \
  if (!(argument)) return call.null_argument(#argument)
#define EMULATOR_TRY(expression) \
  if (::reprise::emulator::Status attempted = (expression); !attempted.ok()) return call.result(attempted)
