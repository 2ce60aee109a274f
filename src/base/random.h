#pragma once

#include <cstdint>

namespace reprise {

/// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr uint64_t mix_bits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

/// Number `counter` of the sequence that `seed` names: a pure function, so that no draw depends on what else was drawn.
constexpr uint64_t random_bits(uint64_t seed, uint64_t counter) {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;
  return mix_bits(mix_bits(seed + kGoldenRatio) + (counter + 1) * kGoldenRatio);
}

/// The same as a number in [0, 1), of 53 bits.
constexpr double random_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 11) * 0x1p-53;
}

}  // namespace reprise
