#pragma once

#include "device/cpu/cpu_stream.h"
#include "device/cpu/kernel.h"
#include "ops/op_def.h"

namespace reprise {

/// A kernel of the device "cpu": a name for dumps and a function that computes a range of tiles. See
/// device/cpu/kernel.h.
using CpuKernel = device::cpu::Kernel;
using device::cpu::tail_of;

/// Launches a kernel of a user's operator on the call's stream: from the operator's `run` function. `arguments` is a
/// plain struct, which is copied; tiles are dealt to the threads. `tail` follows the struct: the
/// kernel finds it with tail_of<Arguments>(arguments); its length may change from replay to replay where the operator
/// is host-tiled.
template <typename Arguments>
void launch_cpu_kernel(const ops::OpCall& call, const CpuKernel& kernel, int64_t tiles, const Arguments& arguments,
                       std::span<const int32_t> tail = {}) {
  static_cast<device::cpu::CpuStream&>(*call.stream).launch(kernel, tiles, arguments, tail);
}

}  // namespace reprise
