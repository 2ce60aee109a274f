#include "device/ascend/memory_pool.h"

#include <iterator>

#include "device/ascend/acl_error.h"

namespace reprise::device::ascend {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
/// aclrtMalloc adds 32 bytes to what it is asked for; with them a region shall still fill whole huge pages.
constexpr size_t kRegionSlack = 64;
constexpr size_t kSlabBytes = kHugePage - kRegionSlack;
/// Large blocks kept for reuse.
constexpr size_t kLargeCacheBytes = size_t{1} << 30;
/// Vector units move 32 bytes at a time and may read behind the end of a tensor.
constexpr size_t kReadAhead = 32;

size_t index_of(MemoryKind kind) { return kind == MemoryKind::kDevice ? 0 : 1; }

size_t needed_bytes(size_t bytes, MemoryKind kind) { return kind == MemoryKind::kDevice ? bytes + kReadAhead : bytes; }

size_t large_block_bytes(size_t needed) {
  return (needed + kRegionSlack + kHugePage - 1) / kHugePage * kHugePage - kRegionSlack;
}

}  // namespace

void MemoryPool::clear() {
  waiting_.clear();
  expired_owners_.clear();
  slabs_ = {};
  large_free_ = {};
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
    while (!regions_[index_of(kind)].empty()) unmap(regions_[index_of(kind)].begin()->first, kind);
  }
}

void* MemoryPool::map(size_t bytes, MemoryKind kind, int& code) {
  void* region = nullptr;
  code = kind == MemoryKind::kDevice ? library_->aclrtMalloc(&region, bytes, ACL_MEM_MALLOC_HUGE_FIRST)
                                     : library_->aclrtMallocHost(&region, bytes);
  if (code != ACL_SUCCESS) return nullptr;
  regions_[index_of(kind)].emplace(static_cast<std::byte*>(region), bytes);
  reserved_bytes_[index_of(kind)] += bytes;
  return region;
}

void MemoryPool::unmap(std::byte* data, MemoryKind kind) {
  const auto region = regions_[index_of(kind)].find(data);
  reserved_bytes_[index_of(kind)] -= region->second;
  regions_[index_of(kind)].erase(region);
  const int code = kind == MemoryKind::kDevice ? library_->aclrtFree(data) : library_->aclrtFreeHost(data);
  log_acl(*library_, code, kind == MemoryKind::kDevice ? "aclrtFree" : "aclrtFreeHost", "giving memory back");
}

bool MemoryPool::is_pinned(const void* address, size_t bytes) const {
  const auto& regions = regions_[index_of(MemoryKind::kPinnedHost)];
  const auto* start = static_cast<const std::byte*>(address);
  auto region = regions.upper_bound(const_cast<std::byte*>(start));
  if (region == regions.begin()) return false;
  --region;
  const size_t offset = static_cast<size_t>(start - region->first);
  return offset <= region->second && bytes <= region->second - offset;
}

std::optional<MemoryPool::Block> MemoryPool::take(size_t bytes, MemoryKind kind) {
  const size_t needed = needed_bytes(bytes, kind);
  std::optional<Block> block;
  if (needed <= SizeClasses::kLargest) {
    Slabs& slabs = slabs_[index_of(kind)];
    const size_t index = SizeClasses::index_of(needed);
    const size_t capacity = SizeClasses::bytes_of(index);
    if (std::vector<std::byte*>& free = slabs.free[index]; !free.empty()) {
      block = Block{free.back(), capacity, kind};
      free.pop_back();
    } else if (static_cast<size_t>(slabs.end - slabs.next) >= capacity) {
      block = Block{slabs.next, capacity, kind};
      slabs.next += capacity;
    }
  } else {
    auto& free = large_free_[index_of(kind)];
    const auto found = free.lower_bound(needed);
    const size_t wanted = large_block_bytes(needed);
    if (found != free.end() && found->first <= wanted + wanted / 4) {
      block = Block{found->second, found->first, kind};
      large_free_bytes_ -= found->first;
      free.erase(found);
    }
  }
  if (block) allocated_bytes_ += block->bytes;
  return block;
}

int MemoryPool::grow(size_t bytes, MemoryKind kind) {
  const size_t needed = needed_bytes(bytes, kind);
  int code = ACL_SUCCESS;
  if (needed <= SizeClasses::kLargest) {
    auto* region = static_cast<std::byte*>(map(kSlabBytes, kind, code));
    if (region != nullptr) {
      Slabs& slabs = slabs_[index_of(kind)];
      if (slabs.begin != nullptr) slabs.cut_bytes[slabs.begin] = static_cast<size_t>(slabs.next - slabs.begin);
      slabs.begin = slabs.next = region;
      slabs.end = region + kSlabBytes;
    }
    return code;
  }
  const size_t capacity = large_block_bytes(needed);
  if (void* region = map(capacity, kind, code)) {
    large_free_[index_of(kind)].emplace(capacity, static_cast<std::byte*>(region));
    large_free_bytes_ += capacity;
  }
  return code;
}

void MemoryPool::make_available(const Block& block) {
  if (block.bytes <= SizeClasses::kLargest) {
    slabs_[index_of(block.kind)].free[SizeClasses::index_of(block.bytes)].push_back(block.data);
  } else if (large_free_bytes_ + block.bytes <= kLargeCacheBytes) {
    large_free_[index_of(block.kind)].emplace(block.bytes, block.data);
    large_free_bytes_ += block.bytes;
  } else {
    unmap(block.data, block.kind);
  }
}

void MemoryPool::drop_cached() {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
    for (const auto& [bytes, data] : large_free_[index_of(kind)]) unmap(data, kind);
    large_free_[index_of(kind)].clear();
    drop_free_slabs(kind);
  }
  large_free_bytes_ = 0;
}

void MemoryPool::drop_free_slabs(MemoryKind kind) {
  Slabs& slabs = slabs_[index_of(kind)];
  std::map<std::byte*, size_t> used = slabs.cut_bytes;
  if (slabs.begin != nullptr) used[slabs.begin] = static_cast<size_t>(slabs.next - slabs.begin);
  const auto slab_of = [&used](std::byte* block) { return std::prev(used.upper_bound(block)); };
  for (size_t index = 0; index < slabs.free.size(); ++index) {
    for (std::byte* block : slabs.free[index]) slab_of(block)->second -= SizeClasses::bytes_of(index);
  }
  for (std::vector<std::byte*>& free : slabs.free) {
    std::erase_if(free, [&](std::byte* block) { return slab_of(block)->second == 0; });
  }
  for (const auto& [slab, bytes] : used) {
    if (bytes > 0) continue;
    slabs.cut_bytes.erase(slab);
    if (slab == slabs.begin) slabs.begin = slabs.next = slabs.end = nullptr;
    unmap(slab, kind);
  }
}

void MemoryPool::retire(const Block& block, std::shared_ptr<const void> owner, uint64_t after) {
  waiting_bytes_ += block.bytes;
  waiting_.push_back({after, block, std::move(owner)});
}

void MemoryPool::reclaim(uint64_t done) {
  while (!waiting_.empty() && waiting_.front().after <= done) {
    Waiting& waiting = waiting_.front();
    if (waiting.block.bytes > 0) make_available(waiting.block);
    waiting_bytes_ -= waiting.block.bytes;
    if (waiting.owner != nullptr) expired_owners_.push_back(std::move(waiting.owner));
    waiting_.pop_front();
  }
}

}  // namespace reprise::device::ascend
