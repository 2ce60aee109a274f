// Sums in one fixed order that vectorises: sixteen partial sums, then those pairwise. A sum depends on the terms alone,
// not on how many rows or blocks there are.
#pragma once

#include <cstdint>

namespace reprise::emulator {

/// The sum of a[i] * b[i] in float32.
float dot(const float* a, const float* b, int64_t count);

/// The exact sum of a[i] * b[i]; the caller keeps `count` small enough for int32 (below 2^17).
int32_t dot(const int8_t* a, const int8_t* b, int64_t count);

/// to[i] += factor * from[i].
void add_scaled(float factor, const float* from, int64_t count, float* to);

}  // namespace reprise::emulator
