#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace reprise::device::cpu {

/// The device's regions of address space: mapped, looked up by address and, under the `discrete` setting, closed to
/// everybody while the device does not run. Guarded by the core's mutex.
class MemoryMap {
 public:
  explicit MemoryMap(bool discrete) : discrete_(discrete) {}
  ~MemoryMap();
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  static constexpr size_t kHugePage = size_t{2} << 20;
  static size_t page_bytes();

  enum class Use { kDevice, kPinnedHost };
  /// Maps `bytes` (a multiple of the page). Regions of kHugePage and more are aligned to it and backed by huge pages
  /// where the system has them. Null when the system refuses.
  std::byte* map(size_t bytes, Use use);
  /// Reserves address space of which nothing is usable before commit(). Null when the system refuses.
  std::byte* reserve(size_t bytes);
  /// Makes the first `bytes` of a reserved region usable; false when the system refuses.
  bool commit(std::byte* region, size_t bytes);
  void unmap(std::byte* region);

  /// Notes host memory that the device uses in place; it is neither unmapped nor closed.
  void add_foreign(const std::byte* start, size_t bytes);
  void remove_foreign(const std::byte* start);

  /// Whether the range lies in one region of pinned host memory.
  bool is_pinned(const void* address, size_t bytes) const;
  /// Whether the value is an address in any region.
  bool contains(uint64_t address) const;

  /// From open() to the matching close() device memory is reachable; without `discrete` it always is.
  void open();
  void close();

 private:
  enum class Kind { kDevice, kPinnedHost, kForeign };
  struct Region {
    size_t bytes = 0;   ///< of address space
    size_t usable = 0;  ///< of them, from the start
    Kind kind = Kind::kDevice;
    int users = 1;  ///< of a foreign region
  };

  std::byte* map_aligned(size_t bytes, int protection);
  int protection_of(Kind kind) const;
  void protect_all();
  const std::pair<const uintptr_t, Region>* find(uint64_t address) const;

  const bool discrete_;
  int open_ = 0;
  std::map<uintptr_t, Region> regions_;  ///< by start
};

}  // namespace reprise::device::cpu
