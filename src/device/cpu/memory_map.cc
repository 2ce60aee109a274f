#include "device/cpu/memory_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace reprise::device::cpu {
namespace {

uintptr_t number_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }
void* address_of(uintptr_t number) { return reinterpret_cast<void*>(number); }

void unmap_range(void* start, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(start, bytes);  // the addresses may come back for somebody else
#endif
  ::munmap(start, bytes);
}

}  // namespace

size_t MemoryMap::page_bytes() {
  static const size_t kBytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

MemoryMap::~MemoryMap() {
  for (const auto& [start, region] : regions_) {
    if (region.kind != Kind::kForeign) unmap_range(address_of(start), region.bytes);
  }
}

int MemoryMap::protection_of(Kind kind) const {
  return discrete_ && open_ == 0 && kind == Kind::kDevice ? PROT_NONE : PROT_READ | PROT_WRITE;
}

std::byte* MemoryMap::map_aligned(size_t bytes, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const bool huge = bytes >= kHugePage;
  const size_t asked = huge ? bytes + kHugePage : bytes;
  void* got = ::mmap(nullptr, asked, protection, kFlags, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  if (!huge) return static_cast<std::byte*>(got);
  const uintptr_t start = number_of(got);
  const uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > start) ::munmap(got, aligned - start);
  if (const size_t rest = start + asked - (aligned + bytes); rest > 0) ::munmap(address_of(aligned + bytes), rest);
  ::madvise(address_of(aligned), bytes, MADV_HUGEPAGE);  // only a hint: without huge pages all is well, too
  return static_cast<std::byte*>(address_of(aligned));
}

std::byte* MemoryMap::map(size_t bytes, Use use) {
  const Kind kind = use == Use::kDevice ? Kind::kDevice : Kind::kPinnedHost;
  std::byte* region = map_aligned(bytes, protection_of(kind));
  if (region != nullptr) regions_[number_of(region)] = {bytes, bytes, kind};
  return region;
}

std::byte* MemoryMap::reserve(size_t bytes) {
  std::byte* region = map_aligned(bytes, PROT_NONE);
  if (region != nullptr) regions_[number_of(region)] = {bytes, 0, Kind::kDevice};
  return region;
}

bool MemoryMap::commit(std::byte* start, size_t bytes) {
  Region& region = regions_.at(number_of(start));
  if (bytes <= region.usable) return true;
  if (::mprotect(start, bytes, protection_of(region.kind)) != 0) return false;
  region.usable = bytes;
  return true;
}

void MemoryMap::unmap(std::byte* start) {
  const auto found = regions_.find(number_of(start));
  unmap_range(start, found->second.bytes);
  regions_.erase(found);
}

void MemoryMap::add_foreign(const std::byte* start, size_t bytes) {
  // Several tensors may begin at one address.
  const auto [place, is_new] = regions_.try_emplace(number_of(start), Region{bytes, bytes, Kind::kForeign, 0});
  if (place->second.kind != Kind::kForeign) return;
  place->second.bytes = std::max(place->second.bytes, bytes);
  ++place->second.users;
}

void MemoryMap::remove_foreign(const std::byte* start) {
  const auto found = regions_.find(number_of(start));
  if (found == regions_.end() || found->second.kind != Kind::kForeign) return;
  if (--found->second.users == 0) regions_.erase(found);
}

const std::pair<const uintptr_t, MemoryMap::Region>* MemoryMap::find(uint64_t address) const {
  auto after = regions_.upper_bound(static_cast<uintptr_t>(address));
  if (after == regions_.begin()) return nullptr;
  const auto& candidate = *std::prev(after);
  return address < candidate.first + candidate.second.bytes ? &candidate : nullptr;
}

bool MemoryMap::is_pinned(const void* address, size_t bytes) const {
  const auto* region = find(number_of(address));
  return region != nullptr && region->second.kind == Kind::kPinnedHost &&
         number_of(address) + bytes <= region->first + region->second.bytes;
}

bool MemoryMap::contains(uint64_t address) const { return find(address) != nullptr; }

void MemoryMap::open() {
  if (++open_ == 1 && discrete_) protect_all();
}

void MemoryMap::close() {
  if (--open_ == 0 && discrete_) protect_all();
}

void MemoryMap::protect_all() {
  for (const auto& [start, region] : regions_) {
    if (region.kind == Kind::kDevice && region.usable > 0)
      ::mprotect(address_of(start), region.usable, protection_of(region.kind));
  }
}

}  // namespace reprise::device::cpu
