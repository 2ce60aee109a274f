#include "emulator/runtime/device_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace reprise::emulator {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
constexpr unsigned char kPoison = 0xcb;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

DeviceMemory::DeviceMemory(uint64_t capacity, uint64_t taken, uint64_t slack, bool execute, bool poison)
    : capacity_(capacity), taken_(std::min(taken, capacity)), slack_(slack), execute_(execute), poison_(poison) {}

void DeviceMemory::reserve() {
  const std::unique_lock lock(mutex_);
  if (base_ != 0) return;
  // Twice the memory, so that addresses rest between their uses.
  const uint64_t span = round_up(2 * capacity_, kHugePage);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* reservation = mmap(nullptr, span, PROT_NONE, flags, -1, 0);
  if (reservation == MAP_FAILED) return;
  void* bytes = execute_ ? mmap(nullptr, span, PROT_READ | PROT_WRITE, flags, -1, 0) : nullptr;
  if (bytes == MAP_FAILED) {
    munmap(reservation, span);
    return;
  }
  madvise(reservation, span, MADV_DONTDUMP);
  if (bytes) madvise(bytes, span, MADV_DONTDUMP);
  bytes_ = static_cast<char*>(bytes);
  span_ = span;
  base_.store(reinterpret_cast<uint64_t>(reservation), std::memory_order_release);
}

DeviceMemory::~DeviceMemory() {
  if (span_ == 0) return;
  munmap(reinterpret_cast<void*>(base_.load()), span_);
  if (bytes_) munmap(bytes_, span_);
}

std::optional<uint64_t> DeviceMemory::find_gap(uint64_t extent) {
  // From the cursor to the end, then once more from the beginning.
  for (int round = 0; round < 2; ++round, cursor_ = 0) {
    uint64_t at = cursor_;
    auto next = blocks_.lower_bound(at);
    if (next != blocks_.begin()) {
      const auto before = std::prev(next);
      at = std::max(at, before->first + before->second.extent);
    }
    for (; next != blocks_.end() && next->first - at < extent; ++next) at = next->first + next->second.extent;
    if (at + extent <= span_) return at;
  }
  return std::nullopt;
}

Status DeviceMemory::allocate(size_t bytes, bool huge_pages, void** address) {
  const std::unique_lock lock(mutex_);
  const uint64_t available = capacity_ - taken_ - used_;
  const auto refuse = [&](const char* what) {
    return Status(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        fmt::format("no device memory for {} bytes: {} ({} of {} bytes are free, {} belong to other processes)", bytes,
                    what, available, capacity_, taken_));
  };
  if (bytes > available) return refuse("the device is full");
  const uint64_t usable = round_up(bytes, 32) + slack_;
  const uint64_t charged = round_up(usable, huge_pages ? kHugePage : kPage);
  if (charged > available) return refuse("the device is full");
  // A page between two, so that an address behind one is in none.
  const uint64_t extent = round_up(usable, kPage) + kPage;
  const std::optional<uint64_t> offset = find_gap(extent);
  if (!offset) return refuse("no address space is left");
  blocks_.emplace(*offset, Block{.bytes = round_up(bytes, 32), .extent = extent, .charged = charged});
  cursor_ = *offset + extent;
  used_ += charged;
  if (poison_ && bytes_) std::memset(bytes_ + *offset, kPoison, round_up(bytes, 32));
  *address = reinterpret_cast<void*>(base_ + *offset);
  return {};
}

Status DeviceMemory::free(const void* address) {
  const std::unique_lock lock(mutex_);
  const auto block = contains(address) ? blocks_.find(reinterpret_cast<uint64_t>(address) - base_) : blocks_.end();
  if (block == blocks_.end()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is not the start of live device memory", address));
  }
  if (bytes_) madvise(bytes_ + block->first, block->second.extent - kPage, MADV_DONTNEED);
  std::erase_if(words_, [&](const auto& word) {
    return word.first >= block->first && word.first < block->first + block->second.extent;
  });
  used_ -= block->second.charged;
  blocks_.erase(block);
  return {};
}

size_t DeviceMemory::free_all() {
  const std::unique_lock lock(mutex_);
  const size_t count = blocks_.size();
  for (const auto& [offset, block] : blocks_) {
    if (bytes_) madvise(bytes_ + offset, block.extent - kPage, MADV_DONTNEED);
  }
  blocks_.clear();
  words_.clear();
  used_ = 0;
  return count;
}

std::optional<uint64_t> DeviceMemory::offset_of(const void* address, size_t bytes) const {
  if (!contains(address)) return std::nullopt;
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - base_;
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return std::nullopt;
  --block;
  const uint64_t inside = offset - block->first;
  if (inside > block->second.bytes || bytes > block->second.bytes - inside) return std::nullopt;
  return offset;
}

void* DeviceMemory::host(const void* address, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const std::optional<uint64_t> offset = offset_of(address, bytes);
  return offset && bytes_ ? bytes_ + *offset : nullptr;
}

bool DeviceMemory::live(const void* address, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  return offset_of(address, bytes).has_value();
}

std::optional<uint64_t> DeviceMemory::load_word(const void* address) const {
  const std::shared_lock lock(mutex_);
  const std::optional<uint64_t> offset = offset_of(address, sizeof(uint64_t));
  if (!offset) return std::nullopt;
  if (bytes_) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(bytes_ + *offset)).load(std::memory_order_acquire);
  }
  const auto word = words_.find(*offset);
  return word == words_.end() ? 0 : word->second;
}

bool DeviceMemory::store_word(const void* address, uint64_t value) {
  const std::unique_lock lock(mutex_);
  const std::optional<uint64_t> offset = offset_of(address, sizeof(uint64_t));
  if (!offset) return false;
  if (bytes_) {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(bytes_ + *offset)).store(value, std::memory_order_release);
  } else {
    words_[*offset] = value;
  }
  return true;
}

void DeviceMemory::forget_words(const void* address, size_t bytes) {
  const std::unique_lock lock(mutex_);
  if (bytes_ || words_.empty() || !contains(address)) return;
  const uint64_t begin = reinterpret_cast<uint64_t>(address) - base_;
  std::erase_if(words_, [&](const auto& word) { return word.first + 8 > begin && word.first < begin + bytes; });
}

uint64_t DeviceMemory::available() const {
  const std::shared_lock lock(mutex_);
  return capacity_ - taken_ - used_;
}

}  // namespace reprise::emulator
