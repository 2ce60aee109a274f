// The memory of one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// Addresses that the host cannot look through: they come from a reservation without access, and the bytes lie in a
/// second mapping of the same shape that only the emulator knows. An address is not given again before all others were.
/// With `execute` off there is no second mapping: only the accounts are kept. Thread-safe.
class DeviceMemory {
 public:
  /// `taken` bytes of `capacity` belong to other processes. Address space is reserved by reserve().
  DeviceMemory(uint64_t capacity, uint64_t taken, uint64_t slack, bool execute, bool poison);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Before the first use; more calls do nothing. Without address space the device has no memory.
  void reserve();

  /// 207001 when no memory (or no address space) is left.
  Status allocate(size_t bytes, bool huge_pages, void** address);
  /// 107000 unless it is the start of a live allocation.
  Status free(const void* address);
  /// Frees everything; the number of allocations that there were.
  size_t free_all();

  /// Where the host finds the bytes; null when they are not wholly inside one live allocation, or without `execute`.
  void* host(const void* address, size_t bytes) const;
  /// Whether the bytes are wholly inside one live allocation.
  bool live(const void* address, size_t bytes) const;
  /// Whether it is an address of this device at all.
  bool contains(const void* address) const {
    const uint64_t value = reinterpret_cast<uint64_t>(address);
    const uint64_t base = base_.load(std::memory_order_acquire);
    return base != 0 && value >= base && value - base < span_;
  }
  bool executes() const { return execute_; }

  /// Words that streams write and wait for, atomically. They work without `execute` too. Empty or false: a bad address.
  std::optional<uint64_t> load_word(const void* address) const;
  bool store_word(const void* address, uint64_t value);
  /// Without `execute`: what copies and fills do to words.
  void forget_words(const void* address, size_t bytes);

  uint64_t capacity() const { return capacity_; }
  uint64_t available() const;

 private:
  struct Block {
    uint64_t bytes = 0;   // usable
    uint64_t extent = 0;  // of address space, with the gap behind
    uint64_t charged = 0;
  };

  std::optional<uint64_t> find_gap(uint64_t extent);
  std::optional<uint64_t> offset_of(const void* address, size_t bytes) const;

  const uint64_t capacity_;
  const uint64_t taken_;
  const uint64_t slack_;
  const bool execute_;
  uint64_t span_ = 0;               // bytes of either mapping; set before base_
  std::atomic<uint64_t> base_ = 0;  // of the reservation; 0: none yet
  char* bytes_ = nullptr;           // the mapping with the bytes
  const bool poison_;

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Block> blocks_;  // by offset
  uint64_t cursor_ = 0;               // where the next address is looked for
  uint64_t used_ = 0;
  std::unordered_map<uint64_t, uint64_t> words_;
};

}  // namespace reprise::emulator
