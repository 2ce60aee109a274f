#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"

namespace reprise::replay {

/// Memory for the intermediates of captured graphs that never run at the same time: they lie over each other.
class GraphPool {
 public:
  /// The device must outlive the pool.
  explicit GraphPool(device::Device& device) : device_(device) {}

  device::Device& device() const { return device_; }
  /// An arena with at least `bytes` usable bytes. The same one again as long as it is large enough; those who have a
  /// smaller one keep it.
  const std::shared_ptr<device::Arena>& acquire(size_t bytes);
  /// What acquire() gives for no more bytes than there are; null before its first call.
  const std::shared_ptr<device::Arena>& arena() const { return arena_; }
  /// Of the arena that acquire() gives now.
  size_t bytes() const { return arena_ == nullptr ? 0 : arena_->committed_bytes(); }

 private:
  device::Device& device_;
  std::shared_ptr<device::Arena> arena_;
};

}  // namespace reprise::replay
