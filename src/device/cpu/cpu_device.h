#pragma once

#include <memory>

#include "device/cpu/cpu_stream.h"
#include "device/device.h"

namespace reprise::device::cpu {

struct CpuOptions {
  /// 0: as many as the process may use (CPU quota and affinity). More than that is allowed: slow, never stuck.
  int threads = 0;
  /// Debug setting: host code faults on device addresses; only the device's copies and kernels reach them.
  bool discrete = false;
};

/// The CPU as a device. Streams are queues that the synchronising or querying thread runs, kernels by one persistent
/// thread team.
std::unique_ptr<Device> create_cpu_device(const CpuOptions& options = {});

}  // namespace reprise::device::cpu
