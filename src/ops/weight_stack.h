#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reprise::ops {

/// Lays the weights of experts one after the other in one storage, as grouped_linear reads them: a stack [E, N, K] in
/// a format is E weights [N, K] in that format. Filled one by one, so that only one of them is in memory twice.
class WeightStack {
 public:
  /// The device must outlive the stack's filling.
  WeightStack(device::Device& device, int64_t count) : device_(device), count_(count) {}

  /// Copies the next weight [N, K], plain or packed, alone in its storage; blocks, and the work that makes it must be
  /// done. All must agree in dtype, format and shape (kInvalidArgument). Weights without memory give a stack of such.
  void add(const Tensor& weight);
  /// Adds the index-th of those that were added once more.
  void repeat(int64_t index);
  /// The stack; kFailedPrecondition unless `count` weights were added.
  Tensor finish() const;

 private:
  void copy_next(const void* weight);

  device::Device& device_;
  int64_t count_;
  int64_t added_ = 0;
  size_t bytes_ = 0;  ///< of one weight
  TensorMeta one_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace reprise::ops
