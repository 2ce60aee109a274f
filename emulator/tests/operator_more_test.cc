// Operators that Reprise's device does not call (acl_operators_more.h), against what the separate operators give or
// numbers computed here.
#include <algorithm>
#include <numeric>

#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

using Lines = OperatorTest;

constexpr aclDataType kHalves[] = {ACL_BF16, ACL_FLOAT16};

TEST_F(Lines, BecomeTheirSoftmax) {
  constexpr int64_t outer = 3, size = 5, inner = 7;
  for (const aclDataType dtype : kFloats) {
    const Numbers x = random(outer * size * inner, dtype, 4);
    const DeviceTensor in = tensor({outer, size, inner}, dtype, x);
    const DeviceTensor out = tensor({outer, size, inner}, dtype);
    for (const int64_t dim : {1, -1, 0}) {
      ASSERT_EQ(call(BOTH(aclnnSoftmax), in.handle, dim, out.handle), ACLNN_SUCCESS);
      const int64_t sizes[] = {outer, size, inner};
      const int64_t strides[] = {size * inner, inner, 1};
      const auto axis = static_cast<size_t>(dim < 0 ? dim + 3 : dim);
      Numbers expected(x.size());
      for (int64_t i = 0; i < outer * size * inner; ++i) {
        const int64_t first = i - i / strides[axis] % sizes[axis] * strides[axis];
        double total = 0;
        for (int64_t j = 0; j < sizes[axis]; ++j) total += std::exp(x[static_cast<size_t>(first + j * strides[axis])]);
        expected[static_cast<size_t>(i)] = std::exp(x[static_cast<size_t>(i)]) / total;
      }
      expect_near(download(out), expected, unit(dtype));
    }
  }
  // A view in, and another dtype out, which keeps the rounding of the first.
  const DeviceTensor x = tensor({2, 3}, ACL_BF16, {0, 1, 2, 3, 4, 5});
  const DeviceTensor wide = tensor({3, 2}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnSoftmax), view(x, {3, 2}, {1, 3}).handle, int64_t{1}, wide.handle), ACLNN_SUCCESS);
  const double small = stored(ACL_BF16, 1 / (1 + std::exp(3)));
  const double large = stored(ACL_BF16, 1 / (1 + std::exp(-3)));
  EXPECT_EQ(download(wide), (Numbers{small, large, small, large, small, large}));

  EXPECT_EQ(call(BOTH(aclnnSoftmax), x.handle, int64_t{2}, x.handle), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnSoftmax), x.handle, int64_t{1}, wide.handle), ACLNN_ERR_PARAM_INVALID) << "another shape";
  EXPECT_EQ(call(BOTH(aclnnSoftmax), tensor({2}, ACL_INT32).handle, int64_t{0}, tensor({2}, ACL_FLOAT).handle),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnSoftmax), nullptr, int64_t{0}, x.handle), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Lines, GiveTheirLargestAndSmallest) {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16, ACL_FLOAT16, ACL_INT8, ACL_INT32, ACL_INT64}) {
    const DeviceTensor x = tensor({2, 5}, dtype, {1, 3, 3, -1, 2, 0, -7, 5, 5, 5});
    const DeviceTensor values = tensor({2, 3}, dtype);
    const DeviceTensor indices = tensor({2, 3}, ACL_INT64);
    const auto top = [&](bool largest) {
      return call(BOTH(aclnnTopk), x.handle, int64_t{3}, int64_t{-1}, largest, true, values.handle, indices.handle);
    };
    ASSERT_EQ(top(true), ACLNN_SUCCESS);
    EXPECT_EQ(download(values), (Numbers{3, 3, 2, 5, 5, 5}));
    EXPECT_EQ(download(indices), (Numbers{1, 2, 4, 2, 3, 4}));
    ASSERT_EQ(top(false), ACLNN_SUCCESS);
    EXPECT_EQ(download(values), (Numbers{-1, 1, 2, -7, 0, 5}));
    EXPECT_EQ(download(indices), (Numbers{3, 0, 4, 1, 0, 2}));
    // Along the first axis, and of all.
    const DeviceTensor column = tensor({1, 5}, dtype);
    const DeviceTensor place = tensor({1, 5}, ACL_INT64);
    ASSERT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{1}, int64_t{0}, true, false, column.handle, place.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(column), (Numbers{1, 3, 5, 5, 5}));
    EXPECT_EQ(download(place), (Numbers{0, 0, 1, 1, 1}));
  }
  // Exact where float32 is not.
  const double huge = std::ldexp(1.0, 60);
  const DeviceTensor x = tensor({3}, ACL_INT64, {huge, huge + 256, huge - 256});
  const DeviceTensor value = tensor({1}, ACL_INT64);
  const DeviceTensor place = tensor({1}, ACL_INT64);
  ASSERT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{1}, int64_t{0}, true, true, value.handle, place.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(value), Numbers{huge + 256});
  EXPECT_EQ(download(place), Numbers{1});

  EXPECT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{4}, int64_t{0}, true, true, value.handle, place.handle),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{2}, int64_t{0}, true, true, value.handle, place.handle),
            ACLNN_ERR_PARAM_INVALID)
      << "the shape";
  EXPECT_EQ(
      call(BOTH(aclnnTopk), x.handle, int64_t{1}, int64_t{0}, true, true, value.handle, tensor({1}, ACL_INT32).handle),
      ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{1}, int64_t{0}, true, true, nullptr, place.handle),
            ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Lines, GiveTheirMaximumAndItsPlace) {
  const double nan = std::nan("");
  const DeviceTensor x = tensor({3, 3}, ACL_BF16, {1, 5, 5, -3, nan, 9, -2, -1, -4});
  const DeviceTensor values = tensor({3}, ACL_BF16);
  const DeviceTensor places = tensor({3}, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnMaxDim), x.handle, int64_t{1}, false, values.handle, places.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(places), (Numbers{1, 1, 1})) << "of equal ones the first, and NaN";
  EXPECT_EQ(download(values)[2], -1);
  const DeviceTensor kept = tensor({1, 3}, ACL_BF16);
  const DeviceTensor kept_places = tensor({1, 3}, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnMaxDim), view(x, {3, 3}, {1, 3}).handle, int64_t{-2}, true, kept.handle, kept_places.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(kept_places), (Numbers{1, 1, 1})) << "a transposed view along its rows";
  EXPECT_EQ(call(BOTH(aclnnMaxDim), x.handle, int64_t{1}, true, values.handle, places.handle), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnMaxDim), x.handle, int64_t{1}, false, values.handle, tensor({3}, ACL_INT64).handle),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Lines, AreGatheredByIndicesOfAnyShape) {
  const DeviceTensor x = tensor({3, 2}, ACL_FLOAT16, {0, 1, 10, 11, 20, 21});
  const DeviceTensor index = tensor({2, 2}, ACL_INT32, {2, 0, 1, 1});
  const DeviceTensor rows = tensor({2, 2, 2}, ACL_FLOAT16);
  ASSERT_EQ(call(BOTH(aclnnGatherV2), x.handle, int64_t{0}, index.handle, rows.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(rows), (Numbers{20, 21, 0, 1, 10, 11, 10, 11}));
  const DeviceTensor columns = tensor({3, 3}, ACL_FLOAT16);
  ASSERT_EQ(call(BOTH(aclnnGatherV2), x.handle, int64_t{-1}, tensor({3}, ACL_INT64, {1, 0, 1}).handle, columns.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(columns), (Numbers{1, 0, 1, 11, 10, 11, 21, 20, 21}));
  EXPECT_EQ(call(BOTH(aclnnGatherV2), x.handle, int64_t{2}, index.handle, rows.handle), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnGatherV2), x.handle, int64_t{1}, index.handle, tensor({2, 2, 3}, ACL_FLOAT16).handle),
            ACLNN_ERR_PARAM_INVALID)
      << "as many elements in another shape";
}

/// x1 + x2, its norm with gamma, and beta, in the steps of separate operators.
class QuantisingNorms : public OperatorTest {
 protected:
  static constexpr int64_t kRows = 3, kColumns = 37;

  void make(aclDataType dtype) {
    dtype_ = dtype;
    const auto like = [&](const Dims& dims, double limit) {
      return tensor(dims, dtype, random(count_of(dims), dtype, limit));
    };
    x1_ = like({kRows, kColumns}, 3);
    x2_ = like({kRows, kColumns}, 3);
    gamma_ = like({kColumns}, 2);
    beta_ = like({kColumns}, 1);
    sum_ = tensor({kRows, kColumns}, dtype);
    normed_ = tensor({kRows, kColumns}, dtype);
    shifted_ = tensor({kRows, kColumns}, dtype);
    ASSERT_EQ(
        call(BOTH(aclnnAddRmsNorm), x1_.handle, x2_.handle, gamma_.handle, 1e-5, normed_.handle, nullptr, sum_.handle),
        ACLNN_SUCCESS);
    float one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
    ASSERT_EQ(call(BOTH(aclnnAdd), normed_.handle, beta_.handle, alpha, shifted_.handle), ACLNN_SUCCESS);
    aclDestroyScalar(alpha);
  }

  DeviceTensor result(aclDataType dtype = ACL_INT8) { return tensor({kRows, kColumns}, dtype); }

  aclnnStatus quantise(aclTensor* scales1, aclTensor* scales2, aclTensor* zeros1, aclTensor* zeros2, aclTensor* beta,
                       bool divide, const DeviceTensor& y1, const DeviceTensor& y2, aclTensor* sum, aclTensor* normed) {
    return call(BOTH(aclnnAddRmsNormQuantV2), x1_.handle, x2_.handle, gamma_.handle, scales1, scales2, zeros1, zeros2,
                beta, int64_t{-1}, 1e-5, divide, y1.handle, y2.handle, sum, normed);
  }

  aclDataType dtype_ = ACL_BF16;
  DeviceTensor x1_, x2_, gamma_, beta_, sum_, normed_, shifted_;
};

TEST_F(QuantisingNorms, WithAnAddendEqualTheSeparateOperators) {
  for (const aclDataType dtype : kHalves) {
    make(dtype);
    const bool half = dtype == ACL_FLOAT16;
    Numbers factors = random(kColumns, dtype, 0.01);
    for (double& factor : factors) factor = stored(dtype, std::fabs(factor) + 0.02);
    Numbers points(kColumns);
    for (size_t i = 0; i < points.size(); ++i) points[i] = static_cast<double>(i) - 9;
    const DeviceTensor scales = tensor({kColumns}, half ? ACL_FLOAT : ACL_BF16, factors);
    const DeviceTensor zeros = tensor({kColumns}, half ? ACL_INT32 : ACL_BF16, points);
    const DeviceTensor y1 = result();
    const DeviceTensor y2 = result();
    const DeviceTensor sum = result(dtype);
    const DeviceTensor expected = result();
    ASSERT_EQ(quantise(scales, scales, nullptr, zeros, beta_, true, y1, y2, sum, nullptr), ACLNN_SUCCESS);
    EXPECT_EQ(download(sum), download(sum_));
    const DeviceTensor own_scales = tensor({kColumns}, dtype, factors);
    const DeviceTensor whole = tensor({kColumns}, ACL_INT32, points);
    ASSERT_EQ(call(BOTH(aclnnQuantize), shifted_.handle, own_scales.handle, nullptr, ACL_INT8, 1, expected.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y1), download(expected));
    ASSERT_EQ(call(BOTH(aclnnQuantize), shifted_.handle, own_scales.handle, whole.handle, ACL_INT8, 1, expected.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y2), download(expected));
    // Without beta, and with factors instead of divisors.
    const DeviceTensor large = tensor({kColumns}, half ? ACL_FLOAT : ACL_BF16, Numbers(kColumns, 20));
    const DeviceTensor own_large = tensor({1}, dtype, {20});
    ASSERT_EQ(quantise(large, nullptr, nullptr, nullptr, nullptr, false, y1, y2, sum, nullptr), ACLNN_SUCCESS);
    ASSERT_EQ(call(BOTH(aclnnAscendQuant), normed_.handle, own_large.handle, nullptr, false, "round", int32_t{ACL_INT8},
                   expected.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y1), download(expected));
  }
}

TEST_F(QuantisingNorms, OfOneScaleGiveTheSumOrTheNorm) {
  make(ACL_FLOAT16);
  const DeviceTensor scale = tensor({1}, ACL_FLOAT16, {0.03125});
  const DeviceTensor zero = tensor({1}, ACL_INT8, {-5});
  const DeviceTensor whole = tensor({1}, ACL_INT32, {-5});
  const DeviceTensor y1 = result();
  const DeviceTensor y2 = result();
  const DeviceTensor out = result(ACL_FLOAT16);
  const DeviceTensor expected = result();
  ASSERT_EQ(
      quantise(scale, nullptr, zero, nullptr, view(beta_, {1, kColumns}, {kColumns, 1}), true, y1, y2, out, nullptr),
      ACLNN_SUCCESS);
  EXPECT_EQ(download(out), download(sum_));
  const Numbers of_view = download(y1);
  ASSERT_EQ(quantise(scale, nullptr, zero, nullptr, beta_, true, y1, y2, out, nullptr), ACLNN_SUCCESS);
  EXPECT_EQ(download(y1), of_view);
  ASSERT_EQ(call(BOTH(aclnnQuantize), shifted_.handle, scale.handle, whole.handle, ACL_INT8, 1, expected.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y1), download(expected));
  ASSERT_EQ(quantise(scale, nullptr, zero, nullptr, nullptr, true, y1, y2, nullptr, out), ACLNN_SUCCESS);
  EXPECT_EQ(download(out), download(normed_));
  ASSERT_EQ(call(BOTH(aclnnQuantize), normed_.handle, scale.handle, whole.handle, ACL_INT8, 1, expected.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y1), download(expected));

  EXPECT_EQ(quantise(scale, nullptr, zero, nullptr, nullptr, true, y1, y2, out, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(quantise(scale, nullptr, zero, nullptr, beta_, false, y1, y2, out, nullptr), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(quantise(scale, nullptr, nullptr, nullptr, beta_, true, y1, y2, out, nullptr), ACLNN_ERR_PARAM_INVALID)
      << "one scale without a zero point is too few scales";
  EXPECT_EQ(quantise(nullptr, nullptr, zero, nullptr, beta_, true, y1, y2, out, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(QuantisingNorms, TakeTheScaleOfEachRowForWhatTheMaskWants) {
  for (const aclDataType dtype : kHalves) {
    make(dtype);
    const DeviceTensor smooth = tensor({kColumns}, dtype, random(kColumns, dtype));
    const DeviceTensor y[] = {result(), result(), result()};
    const DeviceTensor scales[] = {tensor({kRows}, ACL_FLOAT), tensor({kRows}, ACL_FLOAT), tensor({kRows}, ACL_FLOAT)};
    const DeviceTensor sum = result(dtype);
    const auto norm = [&](aclTensor* smooth1, aclTensor* smooth2, const aclBoolArray* mask) {
      return call(BOTH(aclnnAddRmsNormDynamicQuantV2), x1_.handle, x2_.handle, gamma_.handle, smooth1, smooth2,
                  beta_.handle, 1e-5, mask, y[0].handle, y[1].handle, sum.handle, scales[0].handle, scales[1].handle);
    };
    const auto expect_result = [&](size_t i, aclTensor* factors) {
      ASSERT_EQ(call(BOTH(aclnnDynamicQuant), shifted_.handle, factors, y[2].handle, scales[2].handle), ACLNN_SUCCESS);
      EXPECT_EQ(download(y[i]), download(y[2])) << "result " << i;
      EXPECT_EQ(download(scales[i]), download(scales[2])) << "result " << i;
    };
    ASSERT_EQ(norm(smooth, smooth, nullptr), ACLNN_SUCCESS);
    EXPECT_EQ(download(sum), download(sum_));
    expect_result(0, smooth);
    expect_result(1, smooth);
    const bool second_only[] = {false, true};
    const bool both[] = {true, true};
    const bool none[] = {false, false};
    aclBoolArray* masks[] = {aclCreateBoolArray(second_only, 2), aclCreateBoolArray(both, 2),
                             aclCreateBoolArray(none, 2)};
    const Numbers before = download(y[0]);
    upload(y[1], Numbers(kRows * kColumns, 99));
    ASSERT_EQ(norm(nullptr, nullptr, masks[0]), ACLNN_SUCCESS);
    EXPECT_EQ(download(y[0]), before);
    expect_result(1, nullptr);
    ASSERT_EQ(norm(smooth, nullptr, masks[1]), ACLNN_SUCCESS);
    expect_result(0, smooth);
    expect_result(1, nullptr);
    EXPECT_EQ(norm(nullptr, smooth, nullptr), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(norm(smooth, nullptr, masks[0]), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(norm(nullptr, nullptr, masks[2]), ACLNN_ERR_PARAM_INVALID);
    for (const aclBoolArray* mask : masks) aclDestroyBoolArray(mask);
  }
}

TEST_F(QuantisingNorms, WithoutASumMultiplyByTheScale) {
  // The root of the mean square of 3 and 4 is 3.5355: 0.84853 and 1.13137.
  const DeviceTensor x = tensor({1, 2}, ACL_FLOAT16, {3, 4});
  const DeviceTensor gamma = tensor({1, 2}, ACL_FLOAT16, {2, 1});
  const DeviceTensor beta = tensor({1, 2}, ACL_FLOAT16, {0.5, -1});
  const DeviceTensor scale = tensor({1}, ACL_FLOAT16, {4});
  const DeviceTensor offset = tensor({1}, ACL_INT8, {-3});
  const DeviceTensor y = tensor({1, 2}, ACL_INT8);
  const auto norm = [&](aclTensor* zero, aclTensor* out) {
    return call(BOTH(aclnnRmsNormQuant), x.handle, gamma.handle, beta.handle, scale.handle, zero, 0.0, out);
  };
  ASSERT_EQ(norm(offset, y), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{6, -2})) << "8.788 - 3 and 0.5255 - 3";
  EXPECT_EQ(norm(nullptr, y), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(norm(tensor({2}, ACL_INT8), y), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(norm(offset, x), ACLNN_ERR_PARAM_INVALID);
}

class DynamicQuantisation : public OperatorTest {
 protected:
  aclnnStatus quantise(const DeviceTensor& x, aclTensor* smooth, aclTensor* groups, const DeviceTensor& y,
                       aclTensor* scale, aclTensor* offset) {
    return call(BOTH(aclnnDynamicQuantV2), x.handle, smooth, groups, int64_t{ACL_INT8}, y.handle, scale, offset);
  }
};

TEST_F(DynamicQuantisation, TakesTheFactorsOfEachGroup) {
  constexpr int64_t rows = 5, columns = 33;
  for (const aclDataType dtype : kHalves) {
    const DeviceTensor x = tensor({rows, columns}, dtype, random(rows * columns, dtype));
    const Numbers factors = random(3 * columns, dtype);
    const DeviceTensor y = tensor({rows, columns}, ACL_INT8);
    const DeviceTensor scale = tensor({rows}, ACL_FLOAT);
    // The second group has no rows.
    const DeviceTensor groups = tensor({3}, ACL_INT32, {2, 2, 5});
    const DeviceTensor smooth = tensor({3, columns}, dtype, factors);
    ASSERT_EQ(quantise(x, smooth, groups, y, scale, nullptr), ACLNN_SUCCESS);
    const Numbers grouped = download(y);
    const Numbers scales = download(scale);
    for (const int64_t group : {0, 2}) {
      const DeviceTensor own = view(smooth, {columns}, {1}, group * columns);
      ASSERT_EQ(call(BOTH(aclnnDynamicQuant), x.handle, own.handle, y.handle, scale.handle), ACLNN_SUCCESS);
      const int64_t begin = group == 0 ? 0 : 2;
      const int64_t end = group == 0 ? 2 : 5;
      const Numbers alone = download(y);
      const Numbers alone_scales = download(scale);
      for (int64_t i = begin * columns; i < end * columns; ++i) {
        ASSERT_EQ(grouped[static_cast<size_t>(i)], alone[static_cast<size_t>(i)]);
      }
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        EXPECT_EQ(scales[i], alone_scales[i]);
      }
    }
    EXPECT_EQ(quantise(x, nullptr, groups, y, scale, nullptr), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(quantise(x, smooth, tensor({2}, ACL_INT32), y, scale, nullptr), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(quantise(x, nullptr, nullptr, y, tensor({rows + 1}, ACL_FLOAT), nullptr), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(quantise(x, nullptr, nullptr, y, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  }
  const DeviceTensor x = tensor({rows, columns}, ACL_BF16);
  EXPECT_NE(quantise(x, tensor({2, columns}, ACL_BF16), tensor({2}, ACL_INT32, {2, 4}),
                     tensor({rows, columns}, ACL_INT8), tensor({rows}, ACL_FLOAT), nullptr),
            ACLNN_SUCCESS)
      << "groups that end before the rows: a device error";
}

TEST_F(DynamicQuantisation, MayHaveAZeroPoint) {
  // 3 - -1 is 255 steps; the last row has none.
  const DeviceTensor x = tensor({2, 3}, ACL_FLOAT16, {-1, 0, 3, 2, 2, 2});
  const DeviceTensor y = tensor({2, 3}, ACL_INT8);
  const DeviceTensor scale = tensor({2}, ACL_FLOAT);
  const DeviceTensor offset = tensor({2}, ACL_FLOAT);
  ASSERT_EQ(quantise(x, nullptr, nullptr, y, scale, offset), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{-128, -64, 127, 0, 0, 0}));
  expect_near(download(scale), {4.0 / 255, 0}, 1e-6);
  expect_near(download(offset), {-64.25, 0}, 1e-6);
}

TEST_F(DynamicQuantisation, OfColumnsAndOfAllIsForThe950) {
  const auto quantise = [this](const DeviceTensor& x, aclTensor* smooth, const char* mode, bool symmetric,
                               const DeviceTensor& y, const DeviceTensor& scale, aclTensor* offset) {
    return call(BOTH(aclnnDynamicQuantV3), x.handle, smooth, nullptr, int64_t{ACL_INT8}, symmetric, mode, y.handle,
                scale.handle, offset);
  };
  const auto make = [this] { return tensor({2, 2, 3}, ACL_BF16, {1, -2, 4, 2, 1, -8, 0, 4, 1, 0, -16, 2}); };
  EXPECT_EQ(quantise(make(), nullptr, "pertoken", true, tensor({2, 2, 3}, ACL_INT8), tensor({4}, ACL_FLOAT), nullptr),
            ACLNN_ERR_PARAM_INVALID);
  forget();
  restart_with("REPRISE_ACL_PROFILE", "950");
  const DeviceTensor x = make();
  const DeviceTensor y = tensor({2, 2, 3}, ACL_INT8);
  const DeviceTensor six = tensor({2, 3}, ACL_FLOAT);
  ASSERT_EQ(quantise(x, nullptr, "perchannel", true, y, six, nullptr), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{64, -127, 64, 127, 64, -127, 0, 32, 64, 0, -127, 127})) << "63.5 goes to even";
  expect_near(download(six), {2.0 / 127, 2.0 / 127, 8.0 / 127, 0, 16.0 / 127, 2.0 / 127}, 1e-6);
  // Factors of the rows here: the second row of each matrix becomes negligible.
  ASSERT_EQ(quantise(x, tensor({2}, ACL_BF16, {1, 0}), "perchannel", true, y, six, nullptr), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{127, -127, 127, 0, 0, 0, 0, 127, 127, 0, 0, 0}));
  const DeviceTensor one = tensor({1}, ACL_FLOAT);
  const DeviceTensor zero = tensor({1}, ACL_FLOAT);
  ASSERT_EQ(quantise(x, nullptr, "pertensor", false, y, one, zero), ACLNN_SUCCESS);
  expect_near(download(one), {20.0 / 255}, 1e-6);
  expect_near(download(zero), {127 - 4 / (20.0 / 255)}, 1e-6);
  EXPECT_EQ(download(y)[10], -128);
  EXPECT_EQ(download(y)[2], 127);
  EXPECT_EQ(quantise(x, nullptr, "pertensor", true, y, one, zero), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(quantise(x, nullptr, "pertensor", false, y, one, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(quantise(x, nullptr, "perrow", true, y, one, nullptr), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(quantise(x, nullptr, nullptr, true, y, one, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

}  // namespace
}  // namespace reprise::emulator
