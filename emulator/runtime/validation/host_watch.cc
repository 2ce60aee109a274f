#include "emulator/runtime/validation/host_watch.h"

#include <fmt/format.h>

#include <cstring>

namespace reprise::emulator {
namespace {

// FNV-1a over words of eight bytes.
uint64_t fingerprint_of(const void* address, uint64_t bytes) {
  const auto* data = static_cast<const unsigned char*>(address);
  uint64_t hash = 0xcbf29ce484222325u;
  while (bytes >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * 0x100000001b3u;
    // The product moves what it knows upwards only.
    hash ^= hash >> 32;
    data += 8;
    bytes -= 8;
  }
  for (; bytes > 0; --bytes) hash = (hash ^ *data++) * 0x100000001b3u;
  return hash;
}

}  // namespace

bool HostWatch::Copy::overlaps(const void* other, uint64_t count) const {
  const auto begin = reinterpret_cast<uint64_t>(address);
  const auto other_begin = reinterpret_cast<uint64_t>(other);
  return begin < other_begin + count && other_begin < begin + bytes;
}

void HostWatch::submitted(Key key, const void* address, uint64_t bytes, const CallSite& site) {
  pending_.insert_or_assign(key, Copy{address, bytes, fingerprint_of(address, bytes), site});
}

void HostWatch::check(Key key, bool over) {
  const auto entry = pending_.find(key);
  if (entry == pending_.end()) return;
  const Copy& copy = entry->second;
  if (fingerprint_of(copy.address, copy.bytes) != copy.fingerprint) {
    reporter_.report(Misuse::kHostMemoryChanged,
                     fmt::format("the host changed {} bytes at {} after an asynchronous copy from there was submitted "
                                 "and before it was over",
                                 copy.bytes, copy.address),
                     {{"submitted", copy.site}});
    over = true;
  }
  if (over) pending_.erase(entry);
}

void HostWatch::forget(const void* task) {
  pending_.erase({nullptr, task});
  auto entry = pending_.lower_bound({task, nullptr});
  while (entry != pending_.end() && entry->first.first == task) entry = pending_.erase(entry);
}

void HostWatch::written_in_order(const void* address, uint64_t bytes) {
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.overlaps(address, bytes); });
}

void HostWatch::freed(const void* address, uint64_t bytes) {
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    if (!entry->second.overlaps(address, bytes)) {
      ++entry;
      continue;
    }
    reporter_.report(
        Misuse::kHostMemoryChanged,
        fmt::format("pinned memory at {} is freed before an asynchronous copy from there is over", address),
        {{"freed", CallSite::here()}, {"submitted", entry->second.site}});
    entry = pending_.erase(entry);
  }
}

}  // namespace reprise::emulator
