#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/forward_context.h"
#include "tensor/tensor.h"

namespace reprise::cli {

/// What a machine can do at all, on the threads of a device: passes over memory, and over the multipliers in registers.
class MachinePasses {
 public:
  /// Passes read `bytes` of memory. `context` and `stream`, on which its operators run, must outlive them.
  MachinePasses(device::Device& device, device::Stream& stream, ops::ForwardContext& context, int64_t bytes);

  /// Seconds of a pass over the memory.
  double read();
  /// Seconds of a pass that makes products(dtype) products of a dtype: some milliseconds.
  double multiply(DType dtype);
  int64_t bytes() const { return static_cast<int64_t>(buffer_.meta().contiguous_bytes()); }
  int64_t products(DType dtype) const;

 private:
  /// Wider elements take longer: fewer factors take as long.
  Tensor factors_for(DType dtype) const;

  device::Stream& stream_;
  ops::ForwardContext& context_;
  Tensor buffer_, factors_;
};

}  // namespace reprise::cli
