#pragma once

#include "device/device.h"
#include "ops/registry.h"

namespace reprise::kernels::ascend {

/// Gives the operators of the catalogue that the registry holds their kernels for the device "ascend", made of calls of
/// aclnn; those that only measure the CPU's memory and units have none. `device` must be one that
/// create_ascend_device() made; it gives the constants that kernels share their memory. kUnsupported when the libraries
/// lack what every operator's call needs.
void register_ascend_kernels(ops::Registry& registry, device::Device& device);

}  // namespace reprise::kernels::ascend
