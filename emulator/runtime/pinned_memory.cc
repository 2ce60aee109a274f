#include "emulator/runtime/pinned_memory.h"

#include <fmt/format.h>

#include <cstdlib>

namespace reprise::emulator {
namespace {

constexpr size_t kPinnedAlignment = 64;

}  // namespace

PinnedMemory::~PinnedMemory() { free_all(); }

Status PinnedMemory::allocate(size_t bytes, void** address) {
  const size_t rounded = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kPinnedAlignment, rounded);
  if (!memory) return Status(ACL_ERROR_RT_MEMORY_ALLOCATION, fmt::format("no host memory for {} bytes", bytes));
  const std::lock_guard lock(mutex_);
  blocks_.emplace(reinterpret_cast<uint64_t>(memory), rounded);
  *address = memory;
  return {};
}

Status PinnedMemory::free(void* address) {
  const std::lock_guard lock(mutex_);
  if (blocks_.erase(reinterpret_cast<uint64_t>(address)) == 0) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is not memory of aclrtMallocHost", address));
  }
  std::free(address);
  return {};
}

size_t PinnedMemory::free_all() {
  const std::lock_guard lock(mutex_);
  const size_t count = blocks_.size();
  for (const auto& [address, bytes] : blocks_) std::free(reinterpret_cast<void*>(address));
  blocks_.clear();
  return count;
}

bool PinnedMemory::contains(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const uint64_t value = reinterpret_cast<uint64_t>(address);
  auto block = blocks_.upper_bound(value);
  if (block == blocks_.begin()) return false;
  --block;
  const uint64_t inside = value - block->first;
  return inside <= block->second && bytes <= block->second - inside;
}

}  // namespace reprise::emulator
