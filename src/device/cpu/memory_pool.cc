#include "device/cpu/memory_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/system_memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace reprise::device::cpu {
namespace {

constexpr size_t kSlabBytes = MemoryMap::kHugePage;
/// Large blocks kept for reuse: enough for the intermediates of a long prompt.
constexpr size_t kLargeCacheBytes = size_t{512} << 20;

size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

size_t index_of(MemoryKind kind) { return kind == MemoryKind::kDevice ? 0 : 1; }

// AddressSanitizer does not see this allocator: free blocks, and what is behind the end of used ones, are marked here.
void mark_unusable([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}
void mark_usable([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

}  // namespace

void MemoryPool::check_total(size_t more) const {
  // The system grants more than it has and ends the process later; refuse what can never work.
  const SystemMemory memory = system_memory();
  if (memory.total_bytes == 0) return;
  if (more > memory.total_bytes || allocated_bytes_ > memory.total_bytes - more) {
    throw Error(ErrorCode::kOutOfMemory, "cannot allocate {} bytes: {} of {} bytes are in use", more, allocated_bytes_,
                memory.total_bytes);
  }
}

std::byte* MemoryPool::map_or_throw(size_t bytes, MemoryKind kind) {
  check_total(bytes);
  const MemoryMap::Use use = kind == MemoryKind::kDevice ? MemoryMap::Use::kDevice : MemoryMap::Use::kPinnedHost;
  std::byte* region = map_.map(bytes, use);
  if (region == nullptr) {
    drop_cached_large_blocks();
    region = map_.map(bytes, use);
  }
  if (region == nullptr) throw Error(ErrorCode::kOutOfMemory, "the system refuses to map {} bytes", bytes);
  return region;
}

std::byte* MemoryPool::allocate_small(size_t index, MemoryKind kind) {
  Slabs& slabs = slabs_[index_of(kind)];
  if (!slabs.free[index].empty()) {
    std::byte* block = slabs.free[index].back();
    slabs.free[index].pop_back();
    return block;
  }
  const size_t bytes = SizeClasses::bytes_of(index);
  if (static_cast<size_t>(slabs.end - slabs.next) < bytes) {
    slabs.next = map_or_throw(kSlabBytes, kind);
    slabs.end = slabs.next + kSlabBytes;
  }
  std::byte* block = slabs.next;
  slabs.next += bytes;
  return block;
}

size_t MemoryPool::large_block_bytes(size_t bytes) {
  // To the end of the last huge page if little is lost by it: weights that reach a few kilobytes into one are many.
  const size_t whole = round_up(bytes, MemoryMap::kHugePage);
  return whole - bytes <= bytes / 16 ? whole : round_up(bytes, MemoryMap::page_bytes());
}

std::byte* MemoryPool::allocate_large(size_t& bytes, MemoryKind kind) {
  bytes = large_block_bytes(bytes);
  auto& free = large_free_[index_of(kind)];
  const auto found = free.lower_bound(bytes);
  if (found != free.end() && found->first <= bytes + bytes / 4) {
    std::byte* block = found->second;
    bytes = found->first;
    large_free_bytes_ -= found->first;
    free.erase(found);
    return block;
  }
  return map_or_throw(bytes, kind);
}

MemoryPool::Block MemoryPool::allocate(size_t bytes, MemoryKind kind) {
  Block block{nullptr, bytes, kind};
  if (bytes <= kLargestSmallBlock) {
    const size_t index = SizeClasses::index_of(bytes);
    block.bytes = SizeClasses::bytes_of(index);
    block.data = allocate_small(index, kind);
  } else {
    if (bytes > SIZE_MAX / 2) throw Error(ErrorCode::kOutOfMemory, "cannot allocate {} bytes", bytes);
    block.data = allocate_large(block.bytes, kind);
  }
  allocated_bytes_ += block.bytes;
  mark_usable(block.data, bytes);
  mark_unusable(block.data + bytes, block.bytes - bytes);
  return block;
}

void MemoryPool::make_available(const Block& block) {
  if (block.bytes <= kLargestSmallBlock) {
    slabs_[index_of(block.kind)].free[SizeClasses::index_of(block.bytes)].push_back(block.data);
    mark_unusable(block.data, block.bytes);
  } else if (large_free_bytes_ + block.bytes <= kLargeCacheBytes) {
    large_free_[index_of(block.kind)].emplace(block.bytes, block.data);
    large_free_bytes_ += block.bytes;
    mark_unusable(block.data, block.bytes);
  } else {
    map_.unmap(block.data);
  }
}

void MemoryPool::drop_cached_large_blocks() {
  for (auto& free : large_free_) {
    for (const auto& [bytes, data] : free) map_.unmap(data);
    free.clear();
  }
  large_free_bytes_ = 0;
}

void MemoryPool::release(const Block& block, uint64_t after) {
  allocated_bytes_ -= block.bytes;
  waiting_bytes_ += block.bytes;
  waiting_.push_back({Waiting::What::kBlock, after, block, nullptr});
}

std::byte* MemoryPool::reserve(size_t bytes) {
  std::byte* region = map_.reserve(round_up(std::max(bytes, size_t{1}), MemoryMap::page_bytes()));
  if (region == nullptr) throw Error(ErrorCode::kOutOfMemory, "cannot reserve {} bytes of address space", bytes);
  return region;
}

void MemoryPool::commit(std::byte* region, size_t old_bytes, size_t new_bytes) {
  check_total(new_bytes - old_bytes);
  if (!map_.commit(region, round_up(new_bytes, MemoryMap::page_bytes())))
    throw Error(ErrorCode::kOutOfMemory, "the system refuses to commit {} bytes", new_bytes);
  allocated_bytes_ += new_bytes - old_bytes;
}

void MemoryPool::release_reservation(std::byte* region, size_t committed_bytes, uint64_t after) {
  allocated_bytes_ -= committed_bytes;
  waiting_bytes_ += committed_bytes;
  waiting_.push_back({Waiting::What::kReservation, after, {region, committed_bytes, MemoryKind::kDevice}, nullptr});
}

void MemoryPool::release_adopted(const std::byte* start, std::shared_ptr<const void> owner, uint64_t after) {
  Block block;
  block.data = const_cast<std::byte*>(start);
  waiting_.push_back({Waiting::What::kAdopted, after, block, std::move(owner)});
}

void MemoryPool::finish(Waiting& waiting) {
  switch (waiting.what) {
    case Waiting::What::kBlock:
      make_available(waiting.block);
      break;
    case Waiting::What::kReservation:
      map_.unmap(waiting.block.data);
      break;
    case Waiting::What::kAdopted:
      map_.remove_foreign(waiting.block.data);
      expired_owners_.push_back(std::move(waiting.owner));
      break;
  }
  waiting_bytes_ -= waiting.block.bytes;
}

void MemoryPool::reclaim(uint64_t done) {
  while (!waiting_.empty() && waiting_.front().after <= done) {
    finish(waiting_.front());
    waiting_.pop_front();
  }
}

}  // namespace reprise::device::cpu
