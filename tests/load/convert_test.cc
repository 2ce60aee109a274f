#include "load/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "load/test_files.h"

namespace reprise::load {
namespace {

/// The value of a float16 by its definition.
float half_by_definition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Convert, EveryHalfBecomesItsExactFloat) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  convert_to_float(DType::kF16, bytes_of(halves), floats);
  for (size_t i = 0; i < halves.size(); ++i) {
    const float expected = half_by_definition(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(floats[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST(Convert, BFloat16SurvivesTheWayToFloatAndBack) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(all.size());
  convert_to_float(DType::kBF16, bytes_of(all), floats);
  std::vector<BFloat16> back(all.size());
  convert_to_bfloat16(DType::kF32, bytes_of(floats), back);
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(floats[i])) {
      EXPECT_TRUE(std::isnan(to_float(back[i]))) << i;
    } else {
      EXPECT_EQ(back[i].bits, all[i]);
    }
  }
}

TEST(Convert, FloatToBFloat16RoundsToNearestEvenAndKeepsNaN) {
  const std::vector<float> floats = {
      1.0f,
      1.00390625f,                        // half-way: down to the even 1.0
      1.01171875f,                        // half-way: up to the even 1.015625
      std::nextafter(1.00390625f, 2.0f),  // just above half-way
      std::numeric_limits<float>::max(),  // rounds to infinity
      -std::numeric_limits<float>::infinity(),
      std::bit_cast<float>(0x7F800001u),  // a NaN whose mantissa lies in the dropped half
      std::bit_cast<float>(0xFFFFFFFFu),
      -0.0f,
  };
  std::vector<BFloat16> rounded(floats.size());
  convert_to_bfloat16(DType::kF32, bytes_of(floats), rounded);
  EXPECT_EQ(to_float(rounded[0]), 1.0f);
  EXPECT_EQ(to_float(rounded[1]), 1.0f);
  EXPECT_EQ(to_float(rounded[2]), 1.015625f);
  EXPECT_EQ(to_float(rounded[3]), 1.0078125f);
  EXPECT_EQ(rounded[4].bits, 0x7F80);
  EXPECT_EQ(rounded[5].bits, 0xFF80);
  EXPECT_TRUE(std::isnan(to_float(rounded[6])));
  EXPECT_TRUE(std::isnan(to_float(rounded[7])));
  EXPECT_EQ(rounded[8].bits, 0x8000);
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(rounded[i].bits, to_bfloat16(floats[i]).bits) << i;
}

TEST(Convert, SourcesOfAnyLengthAndAlignmentAreRead) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 500.0f;
  for (const size_t count : {0, 1, 2047, 2048, 2049, 5000}) {
    for (const size_t shift : {0, 1, 3}) {
      std::vector<std::byte> source(count * 4 + shift);
      std::vector<std::byte> target(count * 2 + shift);
      if (count > 0) std::memcpy(source.data() + shift, values.data(), count * 4);
      convert(DType::kF32, std::span(source).subspan(shift), DType::kBF16, std::span(target).subspan(shift));
      for (size_t i = 0; i < count; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, target.data() + shift + 2 * i, 2);
        ASSERT_EQ(bits, to_bfloat16(values[i]).bits) << count << " " << shift << " " << i;
      }
    }
  }
}

TEST(Convert, WrongSizesAndIntegersAreRefused) {
  const std::vector<float> source(3);
  std::vector<float> target(2);
  EXPECT_EQ(error_of([&] { convert_to_float(DType::kF32, bytes_of(source), target); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { convert_to_float(DType::kI32, bytes_of(source).first(8), target); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] {
              convert(DType::kF32, bytes_of(source).first(8), DType::kF16, std::as_writable_bytes(std::span(target)));
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise::load
