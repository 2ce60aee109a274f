#pragma once

#include <string>
#include <vector>

#include "device/ascend/ascend_device.h"

namespace reprise::device::ascend {

/// What is there of AscendCL and its devices, for people.
struct AscendReport {
  struct FeatureLine {
    std::string name;
    std::string why_not;  ///< empty: it is on
    std::string without;  ///< what is done instead when it is off
  };
  struct DeviceLine {
    int id = 0;
    std::string name;  ///< "Ascend910B3"
    int cube_cores = 0;
    int vector_cores = 0;
    MemoryInfo memory;
    int64_t streams = 0;  ///< free for captures
    int64_t events = 0;
    bool graphs_hold_streams = true;
    std::vector<FeatureLine> features;
    std::string failure;  ///< why it cannot be opened; the other members are nothing then
  };
  std::string failure;  ///< why there is no AscendCL or no device; empty when there is
  std::vector<std::string> libraries;
  std::string version;
  bool emulator = false;
  std::vector<DeviceLine> devices;
};

/// Looks for them. Never throws for what it finds: that is told in the report.
AscendReport report_ascend(const LibraryOptions& options = {});

/// Whether there is a device that may be used without being named: libraries that are no emulator's, and a device of
/// theirs. Where there are libraries but nothing else, a warning says why.
bool has_real_device(const LibraryOptions& options = {});

}  // namespace reprise::device::ascend
