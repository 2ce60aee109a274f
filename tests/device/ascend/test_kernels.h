#pragma once

#include <memory>
#include <string>

#include "device/ascend/ascend_device.h"
#include "device/contract/contract.h"

namespace reprise::device::ascend {

/// Options for the emulator of this build.
AscendOptions emulator_options();

/// Kernels of the emulator, launched through the stream as operators are.
std::unique_ptr<contract::TestKernels> make_test_kernels();

}  // namespace reprise::device::ascend
