// Host memory that the device reads and writes by itself (aclrtMallocHost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// Thread-safe.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  Status allocate(size_t bytes, void** address);
  Status free(void* address);
  size_t free_all();
  /// Whether the bytes are wholly inside one allocation.
  bool contains(const void* address, size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, size_t> blocks_;  // bytes by address
};

}  // namespace reprise::emulator
