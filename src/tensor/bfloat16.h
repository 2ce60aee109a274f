#pragma once

#include <bit>
#include <cstdint>

namespace reprise {

/// Storage of a bfloat16: the upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays a (quiet) NaN.
inline BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace reprise
