// The timing model's account as tables (REPRISE_ACL_TIMING).
#pragma once

#include <string>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

class Device;

/// Tables of kernels and graphs, with the totals above and the constants below. With Runtime::mutex() held.
std::string timing_report(const Device& device);
/// Appends it to the file that REPRISE_ACL_TIMING names, if it does and if anything ran. With Runtime::mutex() held.
Status write_timing(const Device& device);
/// At the beginning: 100000 when that file cannot be written.
Status check_timing_file();

}  // namespace reprise::emulator
