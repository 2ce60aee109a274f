#pragma once

#include <memory>

#include "device/ascend/ascend_core.h"

namespace reprise::device::ascend {

/// A block of the pool.
class PoolStorage : public Storage {
 public:
  PoolStorage(std::shared_ptr<AscendCore> core, const MemoryPool::Block& block, size_t bytes)
      : Storage(block.data, bytes), core_(std::move(core)), block_(block) {}
  ~PoolStorage() override;

 private:
  std::shared_ptr<AscendCore> core_;
  MemoryPool::Block block_;
};

/// A block that nobody refers to any more but that graphs may use; their destruction gives it back.
class HeldBlock {
 public:
  HeldBlock(std::shared_ptr<AscendCore> core, const MemoryPool::Block& block) : core_(std::move(core)), block_(block) {}
  ~HeldBlock();
  HeldBlock(const HeldBlock&) = delete;
  HeldBlock& operator=(const HeldBlock&) = delete;

 private:
  std::shared_ptr<AscendCore> core_;
  MemoryPool::Block block_;
};

/// Memory for a graph's intermediates, all of it backed from the start.
class AscendArena : public Arena {
 public:
  AscendArena(std::shared_ptr<AscendCore> core, const MemoryPool::Block& block, size_t bytes)
      : Arena(block.data, bytes), core_(std::move(core)), block_(block) {}
  ~AscendArena() override;

  void commit(size_t wanted) override;
  size_t committed_bytes() const override { return bytes(); }

 private:
  std::shared_ptr<AscendCore> core_;
  MemoryPool::Block block_;
};

}  // namespace reprise::device::ascend
