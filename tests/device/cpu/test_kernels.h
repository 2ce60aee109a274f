#pragma once

#include <memory>

#include "device/contract/contract.h"
#include "device/cpu/cpu_device.h"

namespace reprise::device::cpu {

/// Elements of one tile of the test kernels.
inline constexpr int64_t kElementsPerTile = 16;

std::unique_ptr<contract::TestKernels> make_test_kernels();
/// The contract's view of the CPU with these options.
contract::Subject cpu_subject(const std::string& name, CpuOptions options);

}  // namespace reprise::device::cpu
