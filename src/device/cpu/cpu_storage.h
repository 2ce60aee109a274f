#pragma once

#include <memory>
#include <span>

#include "device/cpu/cpu_core.h"

namespace reprise::device::cpu {

/// A block of the device's allocator.
class PoolStorage : public Storage {
 public:
  PoolStorage(std::shared_ptr<CpuCore> core, const MemoryPool::Block& block, size_t bytes)
      : Storage(block.data, bytes), core_(std::move(core)), block_(block) {}
  ~PoolStorage() override;

 private:
  std::shared_ptr<CpuCore> core_;
  MemoryPool::Block block_;
};

/// Host memory that the device uses in place.
class AdoptedStorage : public Storage {
 public:
  AdoptedStorage(std::shared_ptr<CpuCore> core, std::span<const std::byte> host, std::shared_ptr<const void> owner)
      : Storage(const_cast<std::byte*>(host.data()), host.size()), core_(std::move(core)), owner_(std::move(owner)) {}
  ~AdoptedStorage() override;

 private:
  std::shared_ptr<CpuCore> core_;
  std::shared_ptr<const void> owner_;
};

/// Reserved address space of which the first part is backed by memory.
class CpuArena : public Arena {
 public:
  CpuArena(std::shared_ptr<CpuCore> core, std::byte* region, size_t bytes)
      : Arena(region, bytes), core_(std::move(core)) {}
  ~CpuArena() override;

  void commit(size_t bytes) override;
  size_t committed_bytes() const override;

 private:
  std::shared_ptr<CpuCore> core_;
  size_t committed_ = 0;  ///< guarded by the core's mutex
};

}  // namespace reprise::device::cpu
