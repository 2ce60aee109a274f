#pragma once

#include <memory>
#include <string>

#include "device/ascend/ascend_device.h"
#include "device/contract/contract.h"

namespace reprise::device::ascend {

/// Options for the emulator of this build, or for the system's libraries (library_under_test.h).
AscendOptions emulator_options();

/// Kernels of the emulator, launched through the stream as operators are; on the system's libraries operators.
std::unique_ptr<contract::TestKernels> make_test_kernels();
/// Calls of operators, which every AscendCL has.
std::unique_ptr<contract::TestKernels> make_operator_kernels();

}  // namespace reprise::device::ascend
