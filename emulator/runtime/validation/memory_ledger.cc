#include "emulator/runtime/validation/memory_ledger.h"

namespace reprise::emulator {
namespace {

// So many freed allocations are remembered.
constexpr size_t kMostFreed = 1 << 13;

}  // namespace

void MemoryLedger::allocated(const void* address, uint64_t bytes) {
  const uint64_t number = next_++;
  live_[address] = number;
  Allocation allocation;
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.allocated = CallSite::here();
  all_.emplace(number, allocation);
}

uint64_t MemoryLedger::freed(const void* address) {
  const auto entry = live_.find(address);
  if (entry == live_.end()) return 0;
  const uint64_t number = entry->second;
  live_.erase(entry);
  Allocation& allocation = all_.at(number);
  allocation.live = false;
  allocation.freed = CallSite::here();
  freed_.push_back(number);
  if (freed_.size() > kMostFreed) {
    all_.erase(freed_.front());
    freed_.pop_front();
  }
  return number;
}

uint64_t MemoryLedger::find(const void* address) const {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return 0;
  --after;
  const Allocation& allocation = all_.at(after->second);
  const auto offset = reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(allocation.address);
  return offset < allocation.bytes ? after->second : 0;
}

const MemoryLedger::Allocation* MemoryLedger::get(uint64_t allocation) const {
  const auto entry = all_.find(allocation);
  return entry == all_.end() ? nullptr : &entry->second;
}

void MemoryLedger::clear() {
  live_.clear();
  all_.clear();
  freed_.clear();
}

}  // namespace reprise::emulator
