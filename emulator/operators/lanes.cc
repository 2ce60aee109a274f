#include "emulator/operators/lanes.h"

#include <cstring>

namespace reprise::emulator {
namespace {

constexpr int64_t kLanes = 16;

typedef float FourLanes __attribute__((vector_size(16)));
typedef float EightLanes __attribute__((vector_size(32)));

/// The same sums whatever the width of the vectors that hold the lanes.
template <typename Vector>
[[gnu::always_inline]] inline float dot_lanes(const float* a, const float* b, int64_t count) {
  constexpr int64_t kWidth = sizeof(Vector) / sizeof(float);
  Vector sums[kLanes / kWidth] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t part = 0; part < kLanes / kWidth; ++part) {
      Vector x;
      Vector y;
      std::memcpy(&x, a + i + part * kWidth, sizeof(x));
      std::memcpy(&y, b + i + part * kWidth, sizeof(y));
      sums[part] += x * y;
    }
  }
  float lanes[kLanes];
  std::memcpy(lanes, sums, sizeof(lanes));
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += a[i] * b[i];
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

[[gnu::always_inline]] inline int32_t dot_integers(const int8_t* a, const int8_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

[[gnu::always_inline]] inline void add_scaled_lanes(float factor, const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

float dot_anywhere(const float* a, const float* b, int64_t count) { return dot_lanes<FourLanes>(a, b, count); }
int32_t dot_anywhere(const int8_t* a, const int8_t* b, int64_t count) { return dot_integers(a, b, count); }
void add_scaled_anywhere(float factor, const float* from, int64_t count, float* to) {
  add_scaled_lanes(factor, from, count, to);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) float dot_avx2(const float* a, const float* b, int64_t count) {
  return dot_lanes<EightLanes>(a, b, count);
}
__attribute__((target("avx2"))) int32_t dot_avx2(const int8_t* a, const int8_t* b, int64_t count) {
  return dot_integers(a, b, count);
}
__attribute__((target("avx2"))) void add_scaled_avx2(float factor, const float* from, int64_t count, float* to) {
  add_scaled_lanes(factor, from, count, to);
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

#ifdef __x86_64__
float dot(const float* a, const float* b, int64_t count) {
  return kHasAvx2 ? dot_avx2(a, b, count) : dot_anywhere(a, b, count);
}
int32_t dot(const int8_t* a, const int8_t* b, int64_t count) {
  return kHasAvx2 ? dot_avx2(a, b, count) : dot_anywhere(a, b, count);
}
void add_scaled(float factor, const float* from, int64_t count, float* to) {
  kHasAvx2 ? add_scaled_avx2(factor, from, count, to) : add_scaled_anywhere(factor, from, count, to);
}
#else
float dot(const float* a, const float* b, int64_t count) { return dot_anywhere(a, b, count); }
int32_t dot(const int8_t* a, const int8_t* b, int64_t count) { return dot_anywhere(a, b, count); }
void add_scaled(float factor, const float* from, int64_t count, float* to) {
  add_scaled_anywhere(factor, from, count, to);
}
#endif

}  // namespace reprise::emulator
