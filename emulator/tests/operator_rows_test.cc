// Norms, quantisation, activations and rotary embeddings: operators of whole rows.
#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

class Norms : public OperatorTest {
 protected:
  static constexpr int64_t kRows = 3, kColumns = 45;
  static constexpr double kEpsilon = 1e-6;

  void prepare(aclDataType dtype) {
    dtype_ = dtype;
    x1_ = random(kRows * kColumns, dtype);
    x2_ = random(kRows * kColumns, dtype);
    gamma_ = random(kColumns, dtype);
    sum_.resize(x1_.size());
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] = stored(dtype, x1_[i] + x2_[i]);
    in1_ = tensor({kRows, kColumns}, dtype, x1_);
    in2_ = tensor({kRows, kColumns}, dtype, x2_);
    weight_ = tensor({kColumns}, dtype, gamma_);
    y_ = tensor({kRows, kColumns}, dtype);
    x_ = tensor({kRows, kColumns}, dtype);
    rstd_ = tensor({kRows, 1}, ACL_FLOAT);
    int8_ = tensor({kRows, kColumns}, ACL_INT8);
  }

  Numbers norm_of(const Numbers& x) const {
    Numbers y(x.size());
    for (int64_t row = 0; row < kRows; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < kColumns; ++i) squares += std::pow(x[static_cast<size_t>(row * kColumns + i)], 2);
      for (int64_t i = 0; i < kColumns; ++i) {
        const auto at = static_cast<size_t>(row * kColumns + i);
        y[at] = x[at] / std::sqrt(squares / kColumns + kEpsilon) * gamma_[static_cast<size_t>(i)];
      }
    }
    return y;
  }

  aclDataType dtype_ = ACL_FLOAT;
  Numbers x1_, x2_, gamma_, sum_;
  DeviceTensor in1_, in2_, weight_, y_, x_, rstd_, int8_;
};

using Quantisation = OperatorTest;
using Activations = OperatorTest;
using Rotation = OperatorTest;

TEST_F(Norms, AreRootMeanSquares) {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16, ACL_FLOAT16}) {
    prepare(dtype);
    ASSERT_EQ(call(BOTH(aclnnRmsNorm), in1_.handle, weight_.handle, kEpsilon, y_.handle, rstd_.handle), ACLNN_SUCCESS);
    expect_near(download(y_), norm_of(x1_), unit(dtype));
    const Numbers y = download(y_);
    const Numbers rstd = download(rstd_);
    ASSERT_NEAR(rstd[1] * x1_[kColumns] * gamma_[0], y[kColumns], unit(dtype) * 2);
    // A norm of rows within wider ones, with weights of float32.
    const DeviceTensor weight = tensor({kColumns}, ACL_FLOAT, gamma_);
    const DeviceTensor wide = tensor({kRows, 2 * kColumns}, dtype, random(2 * kRows * kColumns, dtype));
    const DeviceTensor part = view(wide, {kRows, kColumns}, {2 * kColumns, 1}, kColumns);
    ASSERT_EQ(call(BOTH(aclnnInplaceCopy), part.handle, in1_.handle), ACLNN_SUCCESS);
    ASSERT_EQ(call(BOTH(aclnnRmsNorm), part.handle, weight.handle, kEpsilon, part.handle, rstd_.handle), ACLNN_SUCCESS);
    ASSERT_EQ(call(BOTH(aclnnInplaceCopy), x_.handle, part.handle), ACLNN_SUCCESS);
    EXPECT_EQ(download(x_), y);
  }
  prepare(ACL_BF16);
  EXPECT_EQ(call(BOTH(aclnnAddRmsNorm), in1_.handle, in2_.handle, tensor({kColumns}, ACL_FLOAT).handle, kEpsilon,
                 y_.handle, rstd_.handle, x_.handle),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Norms, OfSumsRoundTheSumFirst) {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16}) {
    prepare(dtype);
    ASSERT_EQ(call(BOTH(aclnnAddRmsNorm), in1_.handle, in2_.handle, weight_.handle, kEpsilon, y_.handle, rstd_.handle,
                   x_.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(x_), sum_);
    const Numbers y = download(y_);
    expect_near(y, norm_of(sum_), unit(dtype));
    // The separate operators store the same.
    ASSERT_EQ(call(BOTH(aclnnRmsNorm), x_.handle, weight_.handle, kEpsilon, in2_.handle, rstd_.handle), ACLNN_SUCCESS);
    EXPECT_EQ(download(in2_), y);
    upload(in2_, x2_);
    const DeviceTensor wide = tensor({kRows, kColumns}, ACL_FLOAT);
    if (dtype == ACL_FLOAT) continue;
    ASSERT_EQ(call(BOTH(aclnnAddRmsNormCast), in1_.handle, in2_.handle, weight_.handle, kEpsilon, wide.handle,
                   y_.handle, rstd_.handle, x_.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y_), y);
    EXPECT_EQ(download(wide), y);
  }
}

TEST_F(Norms, ThatQuantiseEqualTheSeparateOperators) {
  prepare(ACL_BF16);
  // Powers of two, so that multiplying with one is dividing by the other.
  Numbers factors, divisors;
  for (int64_t i = 0; i < kColumns; ++i) {
    factors.push_back(std::ldexp(1.0, static_cast<int>(i % 6)));
    divisors.push_back(1 / factors.back());
  }
  const DeviceTensor scales = tensor({kColumns}, ACL_BF16, factors);
  const DeviceTensor unused = tensor({1}, ACL_INT8);
  const DeviceTensor offsets = tensor({kColumns}, ACL_BF16, random(kColumns, ACL_INT8, 5));
  ASSERT_EQ(call(BOTH(aclnnAddRmsNorm), in1_.handle, in2_.handle, weight_.handle, kEpsilon, y_.handle, rstd_.handle,
                 x_.handle),
            ACLNN_SUCCESS);
  ASSERT_EQ(call(BOTH(aclnnAscendQuantV3), y_.handle, scales.handle, offsets.handle, false, nullptr,
                 static_cast<int32_t>(ACL_INT8), -1, int8_.handle),
            ACLNN_SUCCESS);
  const Numbers expected = download(int8_);
  upload(int8_, Numbers(expected.size(), 0));
  ASSERT_EQ(call(BOTH(aclnnAddRmsNormQuant), in1_.handle, in2_.handle, weight_.handle,
                 tensor({kColumns}, ACL_BF16, divisors).handle, nullptr, offsets.handle, nullptr, int64_t{-1}, kEpsilon,
                 true, int8_.handle, unused.handle, x_.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(int8_), expected);

  // The two that divide agree for any divisors.
  Numbers steps;
  for (int64_t i = 0; i < kColumns; ++i) steps.push_back(0.01 + 0.003 * static_cast<double>(i % 7));
  const DeviceTensor any = tensor({kColumns}, ACL_BF16, steps);
  ASSERT_EQ(call(BOTH(aclnnQuantize), y_.handle, any.handle, offsets.handle, ACL_INT8, -1, int8_.handle),
            ACLNN_SUCCESS);
  const Numbers divided = download(int8_);
  upload(int8_, Numbers(divided.size(), 0));
  ASSERT_EQ(call(BOTH(aclnnAddRmsNormQuant), in1_.handle, in2_.handle, weight_.handle, any.handle, nullptr,
                 offsets.handle, nullptr, int64_t{-1}, kEpsilon, true, int8_.handle, unused.handle, x_.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(int8_), divided);
  EXPECT_EQ(
      call(BOTH(aclnnQuantize), y_.handle, tensor({1}, ACL_FLOAT, {1}).handle, nullptr, ACL_INT8, -1, int8_.handle),
      ACLNN_ERR_PARAM_INVALID);

  const DeviceTensor smooth = tensor({kColumns}, ACL_BF16, random(kColumns, ACL_BF16));
  const DeviceTensor row_scales = tensor({kRows}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnDynamicQuant), y_.handle, smooth.handle, int8_.handle, row_scales.handle), ACLNN_SUCCESS);
  const Numbers dynamic = download(int8_);
  const Numbers dynamic_scales = download(row_scales);
  upload(row_scales, Numbers(kRows, 0));
  ASSERT_EQ(call(BOTH(aclnnAddRmsNormDynamicQuant), in1_.handle, in2_.handle, weight_.handle, smooth.handle, nullptr,
                 kEpsilon, int8_.handle, unused.handle, x_.handle, row_scales.handle, unused.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(int8_), dynamic);
  EXPECT_EQ(download(row_scales), dynamic_scales);
}

TEST_F(Quantisation, RoundsHalfToEvenAndSaturates) {
  const DeviceTensor x = tensor({1, 8}, ACL_FLOAT, {0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, NAN});
  const DeviceTensor y = tensor({1, 8}, ACL_INT8);
  const auto quantise = [&](const char* mode) {
    return call(BOTH(aclnnAscendQuantV3), x.handle, tensor({1}, ACL_FLOAT, {1}).handle,
                tensor({1}, ACL_FLOAT, {1}).handle, false, mode, static_cast<int32_t>(ACL_INT8), -1, y.handle);
  };
  ASSERT_EQ(quantise("round"), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{2, 2, 4, 0, 0, 127, -128, 0}));
  ASSERT_EQ(quantise("floor"), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{1, 2, 3, 0, -1, 127, -128, 0}));
  EXPECT_EQ(quantise("away"), ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Quantisation, TakesTheScaleOfEachRow) {
  const Numbers numbers = {127, -254, 63.5, 0, 0, 0, 1, 2, 3};
  const DeviceTensor y = tensor({3, 3}, ACL_INT8);
  const DeviceTensor scales = tensor({3}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnDynamicQuant), tensor({3, 3}, ACL_BF16, numbers).handle, nullptr, y.handle, scales.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{64, -127, 32, 0, 0, 0, 42, 85, 127}));
  expect_near(download(scales), {2, 0, 3.0 / 127}, 1e-6);
  EXPECT_EQ(call(BOTH(aclnnDynamicQuant), tensor({3, 3}, ACL_FLOAT, numbers).handle, nullptr, y.handle, scales.handle),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Activations, GateTheOtherHalf) {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16}) {
    const Numbers x = random(2 * 14, dtype, 4);
    const DeviceTensor in = tensor({2, 14}, dtype, x);
    const DeviceTensor y = tensor({2, 7}, dtype);
    ASSERT_EQ(call(BOTH(aclnnSwiGlu), in.handle, int64_t{-1}, y.handle), ACLNN_SUCCESS);
    Numbers expected(14);
    for (size_t i = 0; i < 14; ++i) {
      const double gate = x[i / 7 * 14 + i % 7];
      expected[i] = gate / (1 + std::exp(-gate)) * x[i / 7 * 14 + 7 + i % 7];
    }
    expect_near(download(y), expected, 2 * unit(dtype));
    // The separate operators store the same.
    const DeviceTensor gate = tensor({2, 7}, dtype);
    ASSERT_EQ(call(BOTH(aclnnSilu), view(in, {2, 7}, {14, 1}).handle, gate.handle), ACLNN_SUCCESS);
    ASSERT_EQ(call(BOTH(aclnnInplaceMul), gate.handle, view(in, {2, 7}, {14, 1}, 7).handle), ACLNN_SUCCESS);
    EXPECT_EQ(download(gate), download(y));
  }
}

TEST_F(Activations, ThatQuantiseEqualTheSeparateOperators) {
  const DeviceTensor in = tensor({3, 10}, ACL_BF16, random(30, ACL_BF16, 4));
  const DeviceTensor ones = tensor({1}, ACL_FLOAT, {1});
  const DeviceTensor activated = tensor({3, 5}, ACL_BF16);
  const DeviceTensor y = tensor({3, 5}, ACL_INT8);
  const DeviceTensor scales = tensor({3}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnSwiGlu), in.handle, int64_t{1}, activated.handle), ACLNN_SUCCESS);
  ASSERT_EQ(call(BOTH(aclnnDynamicQuant), activated.handle, nullptr, y.handle, scales.handle), ACLNN_SUCCESS);
  const Numbers expected = download(y);
  const Numbers expected_scales = download(scales);
  char mode[] = "dynamic";
  ASSERT_EQ(call(BOTH(aclnnSwiGluQuant), in.handle, ones.handle, nullptr, nullptr, true, mode, y.handle, scales.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y), expected);
  EXPECT_EQ(download(scales), expected_scales);
  char wrong[] = "other";
  EXPECT_EQ(
      call(BOTH(aclnnSwiGluQuant), in.handle, ones.handle, nullptr, nullptr, true, wrong, y.handle, scales.handle),
      ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Activations, OfSumsOfInt8ProductsAreDequantisedFirst) {
  const Numbers x = random(2 * 6, ACL_INT32, 1000);
  const Numbers columns = random(6, ACL_FLOAT, 0.01);
  const Numbers rows = {0.5, 0.25};
  Numbers expected(6);
  for (size_t i = 0; i < 6; ++i) {
    const size_t row = i / 3, column = i % 3;
    const double gate = x[row * 6 + column] * columns[column] * rows[row];
    expected[i] = gate / (1 + std::exp(-gate)) * x[row * 6 + 3 + column] * columns[3 + column] * rows[row];
  }
  const DeviceTensor y = tensor({2, 3}, ACL_INT8);
  const DeviceTensor scales = tensor({2}, ACL_FLOAT);
  char mode[] = "dynamic";
  ASSERT_EQ(call(BOTH(aclnnDequantSwigluQuant), tensor({2, 6}, ACL_INT32, x).handle,
                 tensor({1, 6}, ACL_FLOAT, columns).handle, tensor({2, 1}, ACL_FLOAT, rows).handle, nullptr, nullptr,
                 nullptr, nullptr, true, mode, y.handle, scales.handle),
            ACLNN_SUCCESS);
  const Numbers steps = download(y);
  const Numbers step = download(scales);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(steps[i] * step[i / 3], expected[i], 0.51 * step[i / 3]);
}

TEST_F(Rotation, TurnsPairsOfEachMode) {
  constexpr int64_t kTokens = 2, kHeads = 3, kSize = 8;
  const Numbers x = random(kTokens * kHeads * kSize, ACL_FLOAT);
  const Numbers cosine = random(kTokens * kSize, ACL_FLOAT);
  const Numbers sine = random(kTokens * kSize, ACL_FLOAT);
  const DeviceTensor y = tensor({1, kTokens, kHeads, kSize}, ACL_FLOAT);
  for (int64_t mode = 0; mode < 4; ++mode) {
    ASSERT_EQ(call(BOTH(aclnnRotaryPositionEmbedding), tensor({1, kTokens, kHeads, kSize}, ACL_FLOAT, x).handle,
                   tensor({1, kTokens, 1, kSize}, ACL_FLOAT, cosine).handle,
                   tensor({1, kTokens, 1, kSize}, ACL_FLOAT, sine).handle, mode, y.handle),
              ACLNN_SUCCESS);
    Numbers expected(x.size());
    for (size_t row = 0; row < kTokens * kHeads; ++row) {
      const double* in = x.data() + row * kSize;
      const Numbers plain =
          mode == 3 ? Numbers{in[0], in[2], in[4], in[6], in[1], in[3], in[5], in[7]} : Numbers(in, in + kSize);
      Numbers turned;
      if (mode == 0) turned = {-in[4], -in[5], -in[6], -in[7], in[0], in[1], in[2], in[3]};
      if (mode == 1) turned = {-in[1], in[0], -in[3], in[2], -in[5], in[4], -in[7], in[6]};
      if (mode == 2) turned = {-in[2], -in[3], in[0], in[1], -in[6], -in[7], in[4], in[5]};
      if (mode == 3) turned = {-in[1], -in[3], -in[5], -in[7], in[0], in[2], in[4], in[6]};
      for (size_t i = 0; i < kSize; ++i) {
        const size_t at = row / kHeads * kSize + i;
        expected[row * kSize + i] = plain[i] * cosine[at] + turned[i] * sine[at];
      }
    }
    expect_near(download(y), expected, 1e-5, 1e-5);
  }
}

TEST_F(Rotation, OfTheFirstVersionTurnsHalves) {
  const Numbers x = random(3 * 2 * 64, ACL_BF16);
  const Numbers keys = random(3 * 64, ACL_BF16);
  const DeviceTensor cosine = tensor({3, 1, 64}, ACL_BF16, random(3 * 64, ACL_BF16, 1));
  const DeviceTensor sine = tensor({3, 1, 64}, ACL_BF16, random(3 * 64, ACL_BF16, 1));
  const DeviceTensor q[] = {tensor({3, 2, 64}, ACL_BF16, x), tensor({3, 2, 64}, ACL_BF16, x)};
  const DeviceTensor k[] = {tensor({3, 1, 64}, ACL_BF16, keys), tensor({3, 1, 64}, ACL_BF16, keys)};
  char half[] = "half";
  ASSERT_EQ(
      call(BOTH(aclnnApplyRotaryPosEmbV2), q[0].handle, k[0].handle, cosine.handle, sine.handle, int64_t{4}, half),
      ACLNN_SUCCESS);
  ASSERT_EQ(call(BOTH(aclnnApplyRotaryPosEmb), q[1].handle, k[1].handle, cosine.handle, sine.handle, int64_t{4}),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(q[1]), download(q[0]));
  EXPECT_EQ(download(k[1]), download(k[0]));
  EXPECT_NE(download(q[1]), x);
  EXPECT_EQ(call(BOTH(aclnnApplyRotaryPosEmb), q[1].handle, k[1].handle, cosine.handle, sine.handle, int64_t{3}),
            ACLNN_ERR_PARAM_INVALID);
  const DeviceTensor narrow = tensor({3, 1, 32}, ACL_BF16);
  EXPECT_EQ(call(BOTH(aclnnApplyRotaryPosEmb), narrow.handle, narrow.handle, narrow.handle, narrow.handle, int64_t{4}),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnApplyRotaryPosEmb), q[1].handle, nullptr, cosine.handle, sine.handle, int64_t{4}),
            ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Rotation, OfATableOfPositionsEqualsThatOfGivenAngles) {
  constexpr int64_t kTokens = 3, kSize = 6;
  const Numbers q = random(kTokens * 2 * kSize, ACL_BF16);
  const Numbers k = random(kTokens * kSize, ACL_BF16);
  const Numbers table = random(5 * kSize, ACL_BF16);
  const Numbers positions = {4, 0, 2};
  Numbers cosine, sine;
  for (const double position : positions) {
    for (int64_t i = 0; i < kSize; ++i) {
      cosine.push_back(table[static_cast<size_t>(position) * kSize + static_cast<size_t>(i % 3)]);
      sine.push_back(table[static_cast<size_t>(position) * kSize + static_cast<size_t>(3 + i % 3)]);
    }
  }
  const DeviceTensor query = tensor({kTokens, 2 * kSize}, ACL_BF16, q);
  const DeviceTensor key = tensor({kTokens, kSize}, ACL_BF16, k);
  const DeviceTensor query_out = tensor({kTokens, 2 * kSize}, ACL_BF16);
  const DeviceTensor key_out = tensor({kTokens, kSize}, ACL_BF16);
  ASSERT_EQ(
      call(BOTH(aclnnRopeWithSinCosCache), tensor({kTokens}, ACL_INT64, positions).handle, query.handle, key.handle,
           tensor({5, kSize}, ACL_BF16, table).handle, nullptr, kSize, true, query_out.handle, key_out.handle),
      ACLNN_SUCCESS);
  char mode[] = "half";
  const DeviceTensor heads = view(query, {kTokens, 2, kSize}, {2 * kSize, kSize, 1});
  const DeviceTensor head = view(key, {kTokens, 1, kSize}, {kSize, kSize, 1});
  ASSERT_EQ(call(BOTH(aclnnApplyRotaryPosEmbV2), heads.handle, head.handle,
                 tensor({kTokens, 1, kSize}, ACL_BF16, cosine).handle,
                 tensor({kTokens, 1, kSize}, ACL_BF16, sine).handle, int64_t{4}, mode),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(query), download(query_out));
  EXPECT_EQ(download(key), download(key_out));
  EXPECT_NE(download(query), q);
}

}  // namespace
}  // namespace reprise::emulator
