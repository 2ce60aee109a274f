// The kernel between plain matrices and FRACTAL_NZ.
#pragma once

#include "emulator/operators/plan.h"

namespace reprise::emulator {

/// Launches the kernel that writes a contiguous tensor of matrices in blocks.
void add_to_blocks(Plan& plan, const TensorArgument& plain, const TensorArgument& blocked);

/// The shape of the storage that matrices of this shape have in blocks.
std::vector<int64_t> blocked_shape(std::span<const int64_t> plain, aclDataType dtype);

}  // namespace reprise::emulator
