#include "emulator/operators/lanes.h"

#include <cstring>

// The sanitizers' runtimes are not there yet when the loader chooses between clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define EMULATOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define EMULATOR_CLONES
#endif

namespace reprise::emulator {

EMULATOR_CLONES float dot(const float* a, const float* b, int64_t count) {
  typedef float Lanes __attribute__((vector_size(64)));
  Lanes sums{};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Lanes x;
    Lanes y;
    std::memcpy(&x, a + i, sizeof(x));
    std::memcpy(&y, b + i, sizeof(y));
    sums += x * y;
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += a[i] * b[i];
  for (int width = 8; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

EMULATOR_CLONES int32_t dot(const int8_t* a, const int8_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

EMULATOR_CLONES void add_scaled(float factor, const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace reprise::emulator
