#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "tensor/bfloat16.h"

namespace reprise {

TEST(Dim, AddsAndScalesSymbols) {
  const Dim tokens = Dim::symbolic(Symbol::kTokens);
  EXPECT_EQ((tokens * 3 + 1).to_string(), "3*s0+1");
  EXPECT_EQ((tokens - tokens), Dim(0));
  const std::vector<int64_t> values = {7, 2};
  EXPECT_EQ((tokens * 3 + 1).at(values), 22);
}

TEST(Dim, RefusesNumbersThatDoNotFit) {
  const Dim tokens = Dim::symbolic(Symbol::kTokens);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(tokens * (int64_t{1} << 31), Error);
  EXPECT_THROW(tokens * (int64_t{1} << 16) * (int64_t{1} << 16), Error);
  EXPECT_THROW(Dim(kLargest) + 1, Error);
  EXPECT_THROW(Dim(kLargest) * 2, Error);
  EXPECT_EQ((tokens + kLargest).offset(), kLargest);
}

TEST(Dim, ReadingASymbolicValueBreaksTheGraph) {
  try {
    static_cast<void>(Dim::symbolic(Symbol::kSequences).value());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kGraphBreak);
  }
}

TEST(Shape, StridesAreConstantWithASymbolicFirstAxis) {
  const Shape shape = {Dim::symbolic(Symbol::kTokens), 4, 64};
  const Strides strides = contiguous_strides(shape);
  EXPECT_EQ(strides[0], 256);
  EXPECT_EQ(strides[1], 64);
  EXPECT_EQ(strides[2], 1);
  EXPECT_EQ(shape.to_string(), "[s0, 4, 64]");
}

TEST(Shape, RefusesASixthDimension) { EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1}), Error); }

TEST(TensorMeta, ContiguityLooksAtStridesAndFormat) {
  TensorMeta meta(DType::kBF16, {2, 3});
  EXPECT_TRUE(meta.is_contiguous());
  meta.strides[0] = 6;
  EXPECT_FALSE(meta.is_contiguous());
  EXPECT_EQ(meta.to_string(), "bfloat16[2, 3]{6,1}");
  EXPECT_FALSE(TensorMeta(DType::kBF16, {2, 3}, Format("n16k2")).is_contiguous());
}

TEST(Tensor, ViewsShareStorageAndMoveTheAddress) {
  std::vector<float> memory(8);
  auto storage = std::make_shared<Storage>(memory.data(), memory.size() * sizeof(float));
  const Tensor whole(TensorMeta(DType::kF32, {8}), storage);
  const Tensor half = whole.with_meta(TensorMeta(DType::kF32, {4}), 16);
  EXPECT_EQ(half.data_as<float>(), memory.data() + 4);
  EXPECT_EQ(half.storage(), storage);
  EXPECT_EQ(half.offset_bytes(), 16u);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bfloat16(1.0f).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808000u)).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F818000u)).bits, 0x3F82);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::max()))));
}

TEST(DType, NamesRoundTrip) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_from_name("bf16").has_value());
}

}  // namespace reprise
