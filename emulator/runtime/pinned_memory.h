// Host memory that the device reads and writes by itself (aclrtMallocHost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// Thread-safe.
class PinnedMemory {
 public:
  /// Keeps memory from going back to the system: a copy may be under way while the program frees it.
  using Hold = std::shared_ptr<const void>;

  Status allocate(size_t bytes, void** address);
  Status free(void* address);
  size_t free_all();
  /// Null unless the bytes are wholly inside one allocation that was not freed.
  Hold hold(const void* address, size_t bytes) const;
  bool contains(const void* address, size_t bytes) const { return hold(address, bytes) != nullptr; }

 private:
  struct Block {
    size_t bytes = 0;
    std::shared_ptr<void> memory;
  };

  mutable std::mutex mutex_;
  std::map<uint64_t, Block> blocks_;  // by address
};

}  // namespace reprise::emulator
