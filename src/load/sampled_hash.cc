#include "load/sampled_hash.h"

#include <algorithm>
#include <array>

#include "base/hash.h"

namespace reprise::load {

std::vector<uint64_t> sample_places(uint64_t bytes, uint64_t count) {
  std::vector<uint64_t> places;
  if (bytes <= count * kSampleBytes) {
    for (uint64_t at = 0; at < bytes; at += kSampleBytes) places.push_back(at);
    return places;
  }
  const uint64_t last = bytes - kSampleBytes;
  const double step = count < 2 ? 0 : static_cast<double>(last) / static_cast<double>(count - 1);
  for (uint64_t i = 0; i + 1 < count; ++i) {
    places.push_back(static_cast<uint64_t>(static_cast<double>(i) * step) / kSampleBytes * kSampleBytes);
  }
  places.push_back(last);
  return places;
}

uint64_t sampled_hash(uint64_t bytes, std::span<const uint64_t> places,
                      const std::function<void(uint64_t offset, std::span<std::byte> to)>& read) {
  std::array<std::byte, kSampleBytes> sample;
  uint64_t hash = kHashStart;
  for (const uint64_t place : places) {
    const auto part = std::span(sample).first(static_cast<size_t>(std::min(kSampleBytes, bytes - place)));
    read(place, part);
    hash = hash_bytes(part, hash);
  }
  return hash;
}

}  // namespace reprise::load
