#include "engine/exponentials.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace reprise::engine {
namespace {

constexpr float kLeast = -87;  // its exponential is still a normal number
constexpr float kLog2E = 1.44269504f;
// ln 2 in two parts; the first has so few bits that its product with a whole number up to 126 is exact.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;
// Adding it rounds to a whole number, which then stands in the lowest bits.
constexpr float kRound = 12582912;

// e^x = 2^n e^r with |r| <= ln 2 / 2, where the terms up to r^7 leave less than 2^-27.
inline float exponential(float x) {
  // Of numbers that are not positive the smaller bits are the greater one. Comparing integers vectorises.
  x = std::bit_cast<float>(std::min(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(kLeast)));
  const float rounded = x * kLog2E + kRound;
  const float n = rounded - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) + 127) << 23);
}

}  // namespace

void exponentials(std::span<float> values) {
  float* const data = values.data();
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) data[i] = exponential(data[i]);
}

}  // namespace reprise::engine
