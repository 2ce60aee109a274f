#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace reprise::load {

/// What a sampled hash looks at: whole pages, which is what disks and page tables move.
inline constexpr uint64_t kSampleBytes = 4096;

/// Where up to `count` samples of `bytes` bytes lie, spread evenly from the first byte to the last; all of the bytes
/// when they are not more than the samples.
std::vector<uint64_t> sample_places(uint64_t bytes, uint64_t count);

/// A hash of the samples at these places. What differs between them goes unseen: it tells data that was replaced or
/// lost, at the price of a few pages, not every changed byte.
uint64_t sampled_hash(uint64_t bytes, std::span<const uint64_t> places,
                      const std::function<void(uint64_t offset, std::span<std::byte> to)>& read);

}  // namespace reprise::load
