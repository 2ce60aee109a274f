#pragma once

#include <cmath>

namespace reprise::emulator {

/// x times its sigmoid, in float32.
inline float silu(float x) { return x / (1.0F + std::exp(-x)); }

}  // namespace reprise::emulator
