// Switches of the environment.
#pragma once

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// 0 or 1; `value` stays what it is where the variable is not set. 100000 for anything else.
Status read_switch(const char* variable, bool& value);

/// What a variable names as a file; empty where it is not set. 100000 for a word or number that is meant as a switch.
Status read_file_name(const char* variable, const char*& path);

/// 100000 when the environment has a variable REPRISE_ACL_... that is none of the settings, with the nearest that is.
Status check_variables();

}  // namespace reprise::emulator
