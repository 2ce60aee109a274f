#include "emulator/runtime/own_code.h"

#include <link.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace reprise::emulator {
namespace {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Ranges are only added, each before the count that covers it.
constexpr size_t kMostRanges = 32;
std::array<Range, kMostRanges> ranges;
std::atomic<size_t> range_count = 0;

struct Search {
  uint64_t address = 0;
};

int add_library(dl_phdr_info* library, size_t, void* data) {
  const uint64_t address = static_cast<Search*>(data)->address;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    const uint64_t begin = library->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || address < begin || address >= begin + segment.p_memsz) continue;
    const size_t count = range_count.load();
    if (count < kMostRanges) {
      ranges[count] = {begin, begin + segment.p_memsz};
      range_count = count + 1;
    }
    return 1;
  }
  return 0;
}

}  // namespace

void add_own_code(const void* address) {
  if (is_own_code(address)) return;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (is_own_code(address)) return;
  Search search{reinterpret_cast<uint64_t>(address)};
  dl_iterate_phdr(add_library, &search);
}

bool is_own_code(const void* address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  const size_t count = range_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (value >= ranges[i].begin && value < ranges[i].end) return true;
  }
  return false;
}

}  // namespace reprise::emulator
