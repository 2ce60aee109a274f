#include "device/cpu/launch_times.h"

#include <cstring>

namespace reprise::device::cpu {

uint64_t LaunchTimes::key_of(const Instruction& launch) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  uint64_t key = reinterpret_cast<uintptr_t>(launch.launch.kernel);
  key = (key ^ static_cast<uint64_t>(launch.launch.tiles)) * kMix;
  for (uint32_t at = 0; at + sizeof(uint64_t) <= launch.argument_bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, launch.launch.arguments + at, sizeof(word));
    // Sizes are small numbers; addresses, which differ from call to call, are not.
    if (word >> 32 == 0) key = ((key ^ key >> 29) ^ word) * kMix;
  }
  return key ^ key >> 32;
}

LaunchTimes::Entry& LaunchTimes::find(const Instruction& launch) {
  const uint64_t key = key_of(launch);
  Entry& entry = entries_[key % entries_.size()];
  if (entry.key != key) entry = {.key = key};
  ++entry.launches;
  return entry;
}

}  // namespace reprise::device::cpu
