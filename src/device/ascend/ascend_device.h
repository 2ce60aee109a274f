#pragma once

#include <memory>

#include "device/ascend/acl_library.h"
#include "device/device.h"

namespace reprise::device::ascend {

struct AscendOptions {
  int device_id = 0;
  LibraryOptions library;
  /// Longest wait for a stream, an event or the device; then the wait ends in an error instead of a hang.
  int wait_limit_ms = 10 * 60 * 1000;
};

/// An Ascend NPU through AscendCL. kNotFound when there is no AscendCL or no device, kInvalidArgument for a device
/// number out of range, kOutOfMemory when somebody else has nearly all of its memory.
std::unique_ptr<Device> create_ascend_device(const AscendOptions& options = {});

}  // namespace reprise::device::ascend
