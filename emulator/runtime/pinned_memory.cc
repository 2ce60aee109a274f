#include "emulator/runtime/pinned_memory.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace reprise::emulator {
namespace {

constexpr size_t kPinnedAlignment = 64;

}  // namespace

Status PinnedMemory::allocate(size_t bytes, void** address) {
  const size_t rounded = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kPinnedAlignment, rounded);
  if (!memory) return Status(ACL_ERROR_RT_MEMORY_ALLOCATION, fmt::format("no host memory for {} bytes", bytes));
  const std::lock_guard lock(mutex_);
  blocks_.emplace(reinterpret_cast<uint64_t>(memory), Block{rounded, std::shared_ptr<void>(memory, std::free)});
  *address = memory;
  return {};
}

Status PinnedMemory::free(void* address) {
  Block freed;
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<uint64_t>(address));
  if (block == blocks_.end()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is not memory of aclrtMallocHost", address));
  }
  freed = std::move(block->second);
  blocks_.erase(block);
  return {};
}

size_t PinnedMemory::free_all() {
  std::map<uint64_t, Block> freed;
  const std::lock_guard lock(mutex_);
  freed.swap(blocks_);
  return freed.size();
}

PinnedMemory::Hold PinnedMemory::hold(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const uint64_t value = reinterpret_cast<uint64_t>(address);
  auto block = blocks_.upper_bound(value);
  if (block == blocks_.begin()) return nullptr;
  --block;
  const uint64_t inside = value - block->first;
  return inside <= block->second.bytes && bytes <= block->second.bytes - inside ? block->second.memory : nullptr;
}

}  // namespace reprise::emulator
