// Allocations of device memory with a number each, so that memory that lies where other memory lay is told from it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "emulator/runtime/call_site.h"

namespace reprise::emulator {

/// Bytes that a task reads or writes. `allocation` is 0 where the address was in none.
struct MemoryUse {
  const void* address = nullptr;
  uint64_t bytes = 0;
  bool write = false;
  uint64_t allocation = 0;
};

/// Not synchronised.
class MemoryLedger {
 public:
  struct Allocation {
    const void* address = nullptr;
    uint64_t bytes = 0;
    bool live = true;
    CallSite allocated;
    CallSite freed;
  };

  void allocated(const void* address, uint64_t bytes);
  /// The number of what was freed; 0: nothing is known of it.
  uint64_t freed(const void* address);
  /// The number of the live allocation that holds the address; 0: none.
  uint64_t find(const void* address) const;
  /// Null when it was never there, or so long ago that it is forgotten.
  const Allocation* get(uint64_t allocation) const;
  bool live(uint64_t allocation) const {
    const Allocation* known = get(allocation);
    return known && known->live;
  }
  void clear();

 private:
  uint64_t next_ = 1;
  std::map<const void*, uint64_t> live_;  // by address
  std::unordered_map<uint64_t, Allocation> all_;
  std::deque<uint64_t> freed_;  // oldest first
};

}  // namespace reprise::emulator
