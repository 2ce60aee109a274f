#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/ascend/acl_library.h"
#include "device/device.h"
#include "device/size_classes.h"

namespace reprise::device::ascend {

/// The device's caching allocator over aclrtMalloc and aclrtMallocHost, which know nothing of queued work. Small blocks
/// are cut from slabs by size class; larger ones are allocated by themselves, and some kept.
///
/// A released block becomes available once all work has run that was queued before its release, on whichever stream:
/// release() takes the number of the last submission, reclaim() the number up to which all work has run. Other objects
/// that queued work may use (events) wait in the same way. Guarded by the core's mutex.
class MemoryPool {
 public:
  explicit MemoryPool(std::shared_ptr<const AclLibrary> library) : library_(std::move(library)) {}
  ~MemoryPool() { clear(); }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;  ///< its capacity; 0: no block
    MemoryKind kind = MemoryKind::kDevice;
  };

  /// A block from what the pool has; nothing when that does not do.
  std::optional<Block> take(size_t bytes, MemoryKind kind);
  /// Gets so much from the device that take() succeeds; AscendCL's code.
  int grow(size_t bytes, MemoryKind kind);

  /// The block is no longer accounted for; it stays usable until it is retired and reclaimed.
  void forget(const Block& block) { allocated_bytes_ -= block.bytes; }
  /// Makes a block available, and lets go of an owner, once work up to `after` has run.
  void retire(const Block& block, std::shared_ptr<const void> owner, uint64_t after);
  /// What was retired with at most `done`.
  void reclaim(uint64_t done);
  /// Gives everything back to the device; nothing may use it any more.
  void clear();
  /// Gives back to the device what is cached and can go: large blocks, and slabs of which no block is in use.
  void drop_cached();

  /// Bytes that wait for reclaim().
  size_t waiting_bytes() const { return waiting_bytes_; }
  bool has_waiting() const { return !waiting_.empty(); }
  /// Owners that are no longer needed; to be destroyed without the mutex.
  std::vector<std::shared_ptr<const void>> take_expired_owners() { return std::exchange(expired_owners_, {}); }

  size_t allocated_bytes() const { return allocated_bytes_; }
  /// Taken from the device, or of the host's memory: allocated, waiting and cached.
  size_t reserved_bytes(MemoryKind kind) const { return reserved_bytes_[kind == MemoryKind::kDevice ? 0 : 1]; }
  /// Whether host memory is this pool's pinned memory.
  bool is_pinned(const void* address, size_t bytes) const;

 private:
  struct Slabs {
    std::byte* begin = nullptr;  ///< of the slab that blocks are cut from now
    std::byte* next = nullptr;
    std::byte* end = nullptr;
    std::array<std::vector<std::byte*>, SizeClasses::kCount> free;
    std::map<std::byte*, size_t> cut_bytes;  ///< of each slab, but for the one of now
  };
  struct Waiting {
    uint64_t after;
    Block block;
    std::shared_ptr<const void> owner;
  };

  void* map(size_t bytes, MemoryKind kind, int& code);
  void unmap(std::byte* data, MemoryKind kind);
  void make_available(const Block& block);
  void drop_free_slabs(MemoryKind kind);

  std::shared_ptr<const AclLibrary> library_;
  std::array<Slabs, 2> slabs_;                                   ///< by memory kind
  std::array<std::multimap<size_t, std::byte*>, 2> large_free_;  ///< by memory kind; size to block
  std::array<std::map<std::byte*, size_t>, 2> regions_;          ///< all that was mapped
  size_t large_free_bytes_ = 0;
  std::deque<Waiting> waiting_;  ///< in the order of retirement
  size_t waiting_bytes_ = 0;
  std::vector<std::shared_ptr<const void>> expired_owners_;
  size_t allocated_bytes_ = 0;
  std::array<size_t, 2> reserved_bytes_{};  ///< by memory kind
};

}  // namespace reprise::device::ascend
