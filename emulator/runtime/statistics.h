// Statistics of a device as text.
#pragma once

#include <string>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

class Device;

/// A JSON object; see emulator/statistics.h. With Runtime::mutex() held.
std::string statistics_as_json(const Device& device);
/// Writes an array of them, one a device that was used, to the file that REPRISE_ACL_STATISTICS names, if it does.
/// Without the lock held.
Status write_statistics();

}  // namespace reprise::emulator
