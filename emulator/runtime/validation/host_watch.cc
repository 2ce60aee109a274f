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
  const auto begin = reinterpret_cast<uint64_t>(range.address);
  const auto other_begin = reinterpret_cast<uint64_t>(other);
  return begin < other_begin + count && other_begin < begin + range.bytes;
}

void HostWatch::reads(Key key, const HostRange& range, PinnedMemory::Hold hold, const CallSite& site) {
  if (!hold) return;
  const uint64_t fingerprint = fingerprint_of(range.address, range.bytes);
  reads_.insert_or_assign(key, Copy{range, fingerprint, std::move(hold), site});
}

void HostWatch::writes(Key key, const HostRange& range, PinnedMemory::Hold hold, const CallSite& site) {
  if (hold) writes_.insert_or_assign(key, Copy{range, std::nullopt, std::move(hold), site});
}

void HostWatch::check(Key key, bool over) {
  if (over) writes_.erase(key);
  const auto entry = reads_.find(key);
  if (entry == reads_.end()) return;
  Copy& copy = entry->second;
  if (copy.fingerprint && fingerprint_of(copy.range.address, copy.range.bytes) != *copy.fingerprint) {
    reporter_.report(Misuse::kHostMemoryChanged,
                     fmt::format("the host changed {} bytes at {} after an asynchronous copy from there was submitted "
                                 "and before it was over",
                                 copy.range.bytes, copy.range.address),
                     {{"submitted", copy.site}});
    copy.fingerprint.reset();
  }
  if (over) reads_.erase(entry);
}

void HostWatch::forget(const void* task) {
  for (Copies* copies : {&reads_, &writes_}) {
    copies->erase({nullptr, task});
    auto entry = copies->lower_bound({task, nullptr});
    while (entry != copies->end() && entry->first.first == task) entry = copies->erase(entry);
  }
}

void HostWatch::written_in_order(const void* address, uint64_t bytes) {
  for (auto& [key, copy] : reads_) {
    if (copy.overlaps(address, bytes)) copy.fingerprint.reset();
  }
}

void HostWatch::anything_written_in_order() {
  for (auto& [key, copy] : reads_) copy.fingerprint.reset();
}

void HostWatch::freed(const void* address, uint64_t bytes) {
  report_freed(reads_, "from", address, bytes);
  report_freed(writes_, "to", address, bytes);
}

void HostWatch::report_freed(Copies& copies, const char* what, const void* address, uint64_t bytes) {
  for (auto entry = copies.begin(); entry != copies.end();) {
    if (!entry->second.overlaps(address, bytes)) {
      ++entry;
      continue;
    }
    reporter_.report(
        Misuse::kHostMemoryChanged,
        fmt::format("pinned memory at {} is freed before an asynchronous copy {} there is over", address, what),
        {{"freed", CallSite::here()}, {"submitted", entry->second.site}});
    entry = copies.erase(entry);
  }
}

void HostWatch::clear() {
  reads_.clear();
  writes_.clear();
}

}  // namespace reprise::emulator
