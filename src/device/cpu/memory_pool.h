#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/cpu/memory_map.h"
#include "device/device.h"
#include "device/size_classes.h"

namespace reprise::device::cpu {

/// The device's caching allocator. Blocks up to kLargestSmallBlock are cut from slabs by size class and kept in free
/// lists for good; larger ones are mapped by themselves, and some kept.
///
/// A released block becomes available once all work has run that was queued before its release, whichever stream that
/// work is on: release() takes the number of the last queued instruction, reclaim() the number up to which all work has
/// run. Guarded by the core's mutex.
class MemoryPool {
 public:
  explicit MemoryPool(bool discrete) : map_(discrete) {}

  static constexpr size_t kAlignment = SizeClasses::kAlignment;
  static constexpr size_t kLargestSmallBlock = SizeClasses::kLargest;

  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;  ///< its capacity
    MemoryKind kind = MemoryKind::kDevice;
  };

  /// kOutOfMemory.
  Block allocate(size_t bytes, MemoryKind kind);
  void release(const Block& block, uint64_t after);

  std::byte* reserve(size_t bytes);
  void commit(std::byte* region, size_t old_bytes, size_t new_bytes);
  void release_reservation(std::byte* region, size_t committed_bytes, uint64_t after);

  /// Memory that belongs to `owner` and is used in place.
  void adopt(const std::byte* start, size_t bytes) { map_.add_foreign(start, bytes); }
  void release_adopted(const std::byte* start, std::shared_ptr<const void> owner, uint64_t after);

  /// Makes available what was released when at most `done` instructions had been queued.
  void reclaim(uint64_t done);
  /// Bytes that wait for reclaim().
  size_t waiting_bytes() const { return waiting_bytes_; }
  /// Owners of adopted memory that are no longer needed; to be destroyed without the mutex.
  std::vector<std::shared_ptr<const void>> take_expired_owners() { return std::exchange(expired_owners_, {}); }

  size_t allocated_bytes() const { return allocated_bytes_; }
  MemoryMap& map() { return map_; }

 private:
  struct Slabs {
    std::byte* next = nullptr;
    std::byte* end = nullptr;
    std::array<std::vector<std::byte*>, SizeClasses::kCount> free;
  };
  struct Waiting {
    enum class What { kBlock, kReservation, kAdopted } what;
    uint64_t after;
    Block block;
    std::shared_ptr<const void> owner;
  };

  std::byte* allocate_small(size_t index, MemoryKind kind);
  static size_t large_block_bytes(size_t bytes);
  std::byte* allocate_large(size_t& bytes, MemoryKind kind);
  std::byte* map_or_throw(size_t bytes, MemoryKind kind);
  void check_total(size_t more) const;
  void make_available(const Block& block);
  void finish(Waiting& waiting);
  void drop_cached_large_blocks();

  MemoryMap map_;
  std::array<Slabs, 2> slabs_;                                   ///< by memory kind
  std::array<std::multimap<size_t, std::byte*>, 2> large_free_;  ///< by memory kind; size to block
  size_t large_free_bytes_ = 0;
  std::deque<Waiting> waiting_;  ///< in the order of release
  size_t waiting_bytes_ = 0;
  std::vector<std::shared_ptr<const void>> expired_owners_;
  size_t allocated_bytes_ = 0;
};

}  // namespace reprise::device::cpu
