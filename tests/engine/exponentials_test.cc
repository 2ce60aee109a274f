#include "engine/exponentials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace reprise::engine {
namespace {

TEST(Exponentials, EqualThoseOfTheLibraryForEverySize) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-87, 0);
  for (const size_t size : {0u, 1u, 3u, 4u, 7u, 31u, 129u, 20000u}) {
    std::vector<float> values(size);
    for (float& value : values) value = uniform(generator);
    const std::vector<float> arguments = values;
    exponentials(values);
    for (size_t i = 0; i < size; ++i) {
      const double exact = std::exp(static_cast<double>(arguments[i]));
      ASSERT_NEAR(values[i] / exact, 1, 1.2e-7) << arguments[i];
    }
  }
}

TEST(Exponentials, AreExactForZeroAndSmallButPositiveFarBelow) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> values{0.0f, -0.0f, -1e-30f, -87, -88, -1000, -largest, -std::numeric_limits<float>::infinity()};
  exponentials(values);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i], 1);
  for (size_t i = 3; i < values.size(); ++i) {
    EXPECT_EQ(values[i], values[3]);
    EXPECT_NEAR(values[i], std::exp(-87.0), 1e-44);
  }
  EXPECT_GE(values[3], std::numeric_limits<float>::min());
}

TEST(Exponentials, NeverGrowAsTheirArgumentsFall) {
  std::vector<float> values;
  for (float x = 0; x > -87; x = std::nextafter(x, -100.0f) - 3e-4f) values.push_back(x);
  exponentials(values);
  for (size_t i = 1; i < values.size(); ++i) ASSERT_LE(values[i], values[i - 1]);
}

}  // namespace
}  // namespace reprise::engine
