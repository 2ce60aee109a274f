// Kernels that move or convert elements, whatever the strides.
#pragma once

#include "emulator/kernel.h"

namespace reprise::emulator {

/// Reads a strided view and writes a contiguous tensor of the same shape and dtype; no parameters.
const Kernel& as_strided_kernel();
/// The other way around.
const Kernel& view_copy_kernel();
/// Converts while it copies. Floating point to integers: towards zero, saturating.
const Kernel& cast_kernel();

}  // namespace reprise::emulator
