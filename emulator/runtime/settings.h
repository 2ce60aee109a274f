// Switches of the environment.
#pragma once

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// 0 or 1; `value` stays what it is where the variable is not set. 100000 for anything else.
Status read_switch(const char* variable, bool& value);

}  // namespace reprise::emulator
