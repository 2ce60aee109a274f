// Products of matrices, plain and in blocks, of floats and of int8.
#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

class Products : public OperatorTest {
 protected:
  /// A matrix [height, width] in blocks, made by NpuFormatCast; seen plainly or with its axes exchanged.
  DeviceTensor blocked(const DeviceTensor& plain, bool exchanged) {
    int64_t* shape = nullptr;
    uint64_t count = 0;
    int format = 0;
    EXPECT_EQ(aclnnNpuFormatCastCalculateSizeAndFormat(plain, ACL_FORMAT_FRACTAL_NZ, -1, &shape, &count, &format),
              ACLNN_SUCCESS);
    const Dims storage(shape, shape + count);
    delete[] shape;
    EXPECT_EQ(format, ACL_FORMAT_FRACTAL_NZ);
    const DeviceTensor memory = tensor({count_of(storage)}, plain.dtype);
    Dims strides(plain.dims.size(), 1);
    for (size_t i = strides.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * plain.dims[i];
    const DeviceTensor as_it_is = view(memory, plain.dims, strides, 0, ACL_FORMAT_FRACTAL_NZ, storage);
    EXPECT_EQ(call(BOTH(aclnnNpuFormatCast), plain.handle, as_it_is.handle), ACLNN_SUCCESS);
    blocks_ = memory;
    return exchanged ? exchanged_view(as_it_is, strides, storage) : as_it_is;
  }

  DeviceTensor exchanged_view(const DeviceTensor& of, Dims strides, const Dims& storage = {},
                              aclFormat format = ACL_FORMAT_FRACTAL_NZ) {
    Dims dims = of.dims;
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
    return view(of, dims, strides, 0, format, storage);
  }

  /// a [m, k] times b [k, n], in double.
  static Numbers product(const Numbers& a, const Numbers& b, int64_t m, int64_t k, int64_t n) {
    Numbers y(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m * n; ++i) {
      for (int64_t j = 0; j < k; ++j)
        y[static_cast<size_t>(i)] += a[static_cast<size_t>(i / n * k + j)] * b[static_cast<size_t>(j * n + i % n)];
    }
    return y;
  }

  static Numbers exchanged(const Numbers& a, int64_t rows, int64_t columns) {
    Numbers y(a.size());
    for (int64_t i = 0; i < rows * columns; ++i)
      y[static_cast<size_t>(i % columns * rows + i / columns)] = a[static_cast<size_t>(i)];
    return y;
  }

  DeviceTensor blocks_;
};

TEST_F(Products, AreTheSameWhateverTheLayoutOfTheMatrix) {
  constexpr int64_t m = 5, k = 37, n = 43;
  for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16, ACL_FLOAT}) {
    const Numbers a = random(m * k, dtype);
    const Numbers b = random(k * n, dtype);
    const DeviceTensor x = tensor({m, k}, dtype, a);
    const DeviceTensor plain = tensor({k, n}, dtype, b);
    const DeviceTensor turned = tensor({n, k}, dtype, exchanged(b, k, n));
    const DeviceTensor y = tensor({m, n}, dtype);
    ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, plain.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
    const Numbers first = download(y);
    expect_near(first, product(a, b, m, k, n), unit(dtype), 1e-5);
    upload(y, Numbers(m * n, 0));
    const DeviceTensor lying = exchanged_view(turned, {k, 1}, {n * k}, ACL_FORMAT_ND);
    ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, lying.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
    EXPECT_EQ(download(y), first);
    EXPECT_EQ(workspace_bytes_, 0u);
    if (dtype == ACL_FLOAT) continue;
    for (const bool lies : {false, true}) {
      upload(y, Numbers(m * n, 0));
      const DeviceTensor blocks = blocked(lies ? turned : plain, lies);
      ASSERT_EQ(call(BOTH(aclnnMatmulWeightNz), x.handle, blocks.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
      EXPECT_EQ(download(y), first);
      EXPECT_EQ(call(BOTH(aclnnMatmul), x.handle, blocks.handle, y.handle, int8_t{0}), ACLNN_ERR_PARAM_INVALID);
    }
  }
}

TEST_F(Products, DoNotDependOnTheOtherRows) {
  constexpr int64_t m = 7, k = 131, n = 9;
  const Numbers a = random(m * k, ACL_BF16);
  const DeviceTensor w = tensor({k, n}, ACL_BF16, random(k * n, ACL_BF16));
  const DeviceTensor y = tensor({m, n}, ACL_FLOAT);
  // Out of float32 is no more than bfloat16 written wide.
  ASSERT_EQ(call(BOTH(aclnnMatmul), tensor({m, k}, ACL_BF16, a).handle, w.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
  const Numbers all = download(y);
  for (const double value : all) EXPECT_EQ(value, stored(ACL_BF16, value));
  for (int64_t row = 0; row < m; ++row) {
    const Numbers one(a.begin() + row * k, a.begin() + (row + 1) * k);
    const DeviceTensor alone = tensor({1, n}, ACL_FLOAT);
    ASSERT_EQ(call(BOTH(aclnnMatmul), tensor({1, k}, ACL_BF16, one).handle, w.handle, alone.handle, int8_t{0}),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(alone), Numbers(all.begin() + row * n, all.begin() + (row + 1) * n));
  }
}

TEST_F(Products, OfBatchesWithAnAddendAreRoundedOnce) {
  constexpr int64_t batches = 2, m = 3, k = 19, n = 5;
  const Numbers a = random(batches * m * k, ACL_BF16);
  const Numbers b = random(batches * k * n, ACL_BF16);
  const Numbers c = random(n, ACL_FLOAT);
  Numbers expected;
  for (int64_t i = 0; i < batches; ++i) {
    const Numbers part =
        product(Numbers(a.begin() + i * m * k, a.end()), Numbers(b.begin() + i * k * n, b.end()), m, k, n);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  const DeviceTensor x = tensor({batches, m, k}, ACL_BF16, a);
  const DeviceTensor w = tensor({batches, k, n}, ACL_BF16, b);
  const DeviceTensor y = tensor({batches, m, n}, ACL_BF16);
  ASSERT_EQ(call(BOTH(aclnnBatchMatMul), x.handle, w.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
  expect_near(download(y), expected, unit(ACL_BF16));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += c[i % n];
  const DeviceTensor wide = tensor({batches, m, n}, ACL_FLOAT);
  float value = 1;
  aclScalar* one = aclCreateScalar(&value, ACL_FLOAT);
  ASSERT_EQ(
      call(BOTH(aclnnBaddbmm), tensor({n}, ACL_FLOAT, c).handle, x.handle, w.handle, one, one, wide.handle, int8_t{0}),
      ACLNN_SUCCESS);
  expect_near(download(wide), expected, 1e-5, 1e-5);
  aclDestroyScalar(one);
}

TEST_F(Products, RefuseWhatTheDeviceDoesNotMultiply) {
  const DeviceTensor a = tensor({2, 3}, ACL_BF16);
  const DeviceTensor y = tensor({2, 4}, ACL_BF16);
  EXPECT_EQ(call(BOTH(aclnnMatmul), a.handle, tensor({3, 4}, ACL_FLOAT).handle, y.handle, int8_t{0}),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnMatmul), a.handle, tensor({2, 4}, ACL_BF16).handle, y.handle, int8_t{0}),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnMatmul), a.handle, tensor({3, 4}, ACL_BF16).handle, y.handle, int8_t{3}),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnMatmul), nullptr, a.handle, y.handle, int8_t{0}), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Products, OfFloat32MayBeCutToFewerBits) {
  const Numbers a = {1 + 1.0 / 4096};
  const DeviceTensor x = tensor({1, 1}, ACL_FLOAT, a);
  const DeviceTensor y = tensor({1, 1}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, x.handle, y.handle, int8_t{1}), ACLNN_SUCCESS);
  EXPECT_EQ(download(y)[0], 1.0);
  ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, x.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
  EXPECT_GT(download(y)[0], 1.0);
}

TEST_F(Products, InBlocksLieAsTheLayoutSays) {
  for (const aclDataType dtype : {ACL_BF16, ACL_INT8}) {
    const int64_t columns = dtype == ACL_INT8 ? 32 : 16;
    constexpr int64_t height = 21, width = 50;
    const Numbers numbers = random(height * width, dtype, 100);
    blocked(tensor({height, width}, dtype, numbers), false);
    const Numbers blocks = download(blocks_);
    ASSERT_EQ(blocks.size(), static_cast<size_t>((width + columns - 1) / columns * columns * 32));
    double sum = 0;
    double expected_sum = 0;
    for (int64_t h = 0; h < height; ++h) {
      for (int64_t w = 0; w < width; ++w) {
        const int64_t at = ((w / columns * 2 + h / 16) * 16 + h % 16) * columns + w % columns;
        EXPECT_EQ(blocks[static_cast<size_t>(at)], numbers[static_cast<size_t>(h * width + w)]);
        expected_sum += std::fabs(numbers[static_cast<size_t>(h * width + w)]);
      }
    }
    for (const double value : blocks) sum += std::fabs(value);
    EXPECT_EQ(sum, expected_sum);  // what is beside the matrix is 0
    const DeviceTensor back = tensor({height, width}, dtype);
    const int64_t block_columns = (width + columns - 1) / columns;
    const DeviceTensor seen = view(blocks_, {block_columns, 2, 16, columns}, {32 * columns, 16 * columns, columns, 1},
                                   0, ACL_FORMAT_FRACTAL_NZ, {block_columns, 2, 16, columns});
    ASSERT_EQ(call(BOTH(aclnnNpuFormatCast), seen.handle, back.handle), ACLNN_SUCCESS);
    EXPECT_EQ(download(back), numbers);
  }
}

TEST_F(Products, OfAWeightRewrittenWhereItLiesAreTheSame) {
  constexpr int64_t m = 3, k = 18, n = 33;
  for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16}) {
    const Numbers numbers = random(k * n, dtype);
    const DeviceTensor x = tensor({m, k}, dtype, random(m * k, dtype));
    const DeviceTensor plain = tensor({k, n}, dtype, numbers);
    const DeviceTensor y = tensor({m, n}, dtype);
    ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, plain.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
    const Numbers expected = download(y);
    upload(y, Numbers(m * n, 0));
    ASSERT_EQ(call(BOTH(aclnnMm), x.handle, plain.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
    EXPECT_EQ(download(y), expected);

    const int64_t shape[] = {k, n};
    aclIntArray* sizes = aclCreateIntArray(shape, 2);
    uint64_t elements = 0;
    ASSERT_EQ(aclnnCalculateMatmulWeightSizeV2(sizes, dtype, &elements), ACLNN_SUCCESS);
    EXPECT_EQ(elements, 32u * 48u);
    uint64_t of_halves = 0;
    ASSERT_EQ(aclnnCalculateMatmulWeightSize(sizes, &of_halves), ACLNN_SUCCESS);
    EXPECT_EQ(of_halves, elements);
    EXPECT_EQ(aclnnCalculateMatmulWeightSizeV2(sizes, ACL_FLOAT, &elements), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(aclnnCalculateMatmulWeightSizeV2(nullptr, dtype, &elements), ACLNN_ERR_PARAM_NULLPTR);
    aclDestroyIntArray(sizes);

    const DeviceTensor memory = tensor({32 * 48}, dtype, numbers);
    const DeviceTensor weight = view(memory, {k, n}, {n, 1}, 0, ACL_FORMAT_ND, {k, n});
    ASSERT_EQ(call(BOTH(aclnnTransMatmulWeight), weight.handle), ACLNN_SUCCESS);
    aclFormat format = ACL_FORMAT_ND;
    ASSERT_EQ(aclGetFormat(weight, &format), ACLNN_SUCCESS);
    EXPECT_EQ(format, ACL_FORMAT_FRACTAL_NZ);
    blocked(plain, false);
    EXPECT_EQ(download(memory), download(blocks_));
    for (const auto first : {aclnnMmGetWorkspaceSize, aclnnMatmulWeightNzGetWorkspaceSize}) {
      upload(y, Numbers(m * n, 0));
      const bool mm = first == aclnnMmGetWorkspaceSize;
      ASSERT_EQ(call(first, mm ? aclnnMm : aclnnMatmulWeightNz, x.handle, weight.handle, y.handle, int8_t{0}),
                ACLNN_SUCCESS);
      EXPECT_EQ(download(y), expected);
    }
    EXPECT_EQ(call(BOTH(aclnnTransMatmulWeight), weight.handle), ACLNN_ERR_PARAM_INVALID) << "a second time";
  }
  const DeviceTensor small = tensor({17, 17}, ACL_FLOAT16);
  EXPECT_EQ(call(BOTH(aclnnTransMatmulWeight), exchanged_view(small, {17, 1}, {}, ACL_FORMAT_ND).handle),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnTransMatmulWeight), tensor({17, 17}, ACL_FLOAT).handle), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnTransMatmulWeight), nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(call(BOTH(aclnnMm), tensor({1, 2, 3}, ACL_BF16).handle, small.handle, small.handle, int8_t{0}),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(call(BOTH(aclnnTransMatmulWeight), small.handle), ACLNN_SUCCESS)
      << "no room for its blocks: a device error";
}

class Int8Products : public Products {
 protected:
  static constexpr int64_t m = 4, k = 70, n = 35;
  void SetUp() override {
    Products::SetUp();
    a_ = random(m * k, ACL_INT8, 127);
    b_ = random(k * n, ACL_INT8, 127);
    scale_ = random(n, ACL_FLOAT, 0.01);
    rows_ = random(m, ACL_FLOAT, 0.1);
    sums_ = product(a_, b_, m, k, n);
    x_ = tensor({m, k}, ACL_INT8, a_);
    w_ = tensor({n, k}, ACL_INT8, exchanged(b_, k, n));
    scales_ = tensor({n}, ACL_FLOAT, scale_);
    row_scales_ = tensor({m}, ACL_FLOAT, rows_);
  }
  Numbers a_, b_, scale_, rows_, sums_;
  DeviceTensor x_, w_, scales_, row_scales_;
};

TEST_F(Int8Products, HaveScalesOfRowsAndColumnsAndABias) {
  const Numbers bias = random(n, ACL_FLOAT);
  const Numbers steps = random(n, ACL_INT32, 1e5);
  const DeviceTensor float_bias = tensor({n}, ACL_FLOAT, bias);
  const DeviceTensor integer_bias = tensor({n}, ACL_INT32, steps);
  const DeviceTensor y = tensor({m, n}, ACL_BF16);
  for (const int kind : {0, 1, 2}) {
    aclTensor* const addend = kind == 0 ? nullptr : kind == 1 ? float_bias.handle : integer_bias.handle;
    Numbers expected(m * n);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t column = i % n;
      expected[i] =
          (sums_[i] + (kind == 2 ? steps[column] : 0)) * scale_[column] * rows_[i / n] + (kind == 1 ? bias[column] : 0);
    }
    ASSERT_EQ(call(BOTH(aclnnQuantMatmulV4), x_.handle, w_.handle, scales_.handle, nullptr, row_scales_.handle, addend,
                   false, true, y.handle),
              ACLNN_SUCCESS);
    expect_near(download(y), expected, unit(ACL_BF16));
    const Numbers first = download(y);
    upload(y, Numbers(m * n, 0));
    ASSERT_EQ(call(BOTH(aclnnQuantMatmulV5), x_.handle, w_.handle, row_scales_.handle, scales_.handle, nullptr, nullptr,
                   nullptr, nullptr, addend, false, true, int64_t{0}, y.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y), first);
    upload(y, Numbers(m * n, 0));
    ASSERT_EQ(call(BOTH(aclnnQuantMatmulWeightNz), x_.handle, blocked(w_, false).handle, row_scales_.handle,
                   scales_.handle, nullptr, nullptr, nullptr, nullptr, addend, false, true, int64_t{0}, y.handle),
              ACLNN_SUCCESS);
    EXPECT_EQ(download(y), first);
  }
}

TEST_F(Int8Products, OfTheThirdVersionHaveScalesOfColumns) {
  const Numbers steps = random(n, ACL_INT32, 1e5);
  const DeviceTensor bias = tensor({n}, ACL_INT32, steps);
  const DeviceTensor y = tensor({m, n}, ACL_BF16);
  const auto multiply = [&](aclTensor* w, aclTensor* scale, aclTensor* offset, const DeviceTensor& out) {
    return call(BOTH(aclnnQuantMatmulV3), x_.handle, w, scale, offset, bias.handle, false, true, out.handle);
  };
  Numbers expected(m * n);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = (sums_[i] + steps[i % n]) * scale_[i % n];
  ASSERT_EQ(multiply(w_, scales_, nullptr, y), ACLNN_SUCCESS);
  expect_near(download(y), expected, unit(ACL_BF16));
  const Numbers first = download(y);
  // The weight [n, k] in blocks.
  const DeviceTensor memory = tensor({48 * 96}, ACL_INT8, exchanged(b_, k, n));
  const DeviceTensor weight = view(memory, {n, k}, {k, 1}, 0, ACL_FORMAT_ND, {n, k});
  ASSERT_EQ(call(BOTH(aclnnTransMatmulWeight), weight.handle), ACLNN_SUCCESS);
  upload(y, Numbers(m * n, 0));
  ASSERT_EQ(multiply(weight, scales_, nullptr, y), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), first);
  EXPECT_EQ(multiply(w_, nullptr, nullptr, y), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(multiply(w_, scales_, scales_, y), ACLNN_ERR_PARAM_INVALID) << "an offset without int8";
  EXPECT_EQ(multiply(w_, scales_, nullptr, tensor({m, n + 1}, ACL_BF16)), ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Int8Products, AreExactInInt32) {
  const DeviceTensor y = tensor({m, n}, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnQuantMatmulV4), x_.handle, w_.handle, scales_.handle, nullptr, nullptr, nullptr, false, true,
                 y.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y), sums_);
  // A scale of rows does not go with int32, nor float32 with any.
  EXPECT_EQ(call(BOTH(aclnnQuantMatmulV4), x_.handle, w_.handle, scales_.handle, nullptr, row_scales_.handle, nullptr,
                 false, true, y.handle),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(call(BOTH(aclnnQuantMatmulV4), x_.handle, w_.handle, scales_.handle, nullptr, nullptr, nullptr, false, true,
                 tensor({m, n}, ACL_FLOAT).handle),
            ACLNN_ERR_PARAM_INVALID);
}

/// Lists of one tensor each.
class GroupedProducts : public Products {
 protected:
  void TearDown() override {
    for (const aclTensorList* list : lists_) aclDestroyTensorList(list);
    Products::TearDown();
  }
  /// A list with a tensor of its own for the same memory.
  aclTensorList* list(const DeviceTensor& of, const Dims& strides) {
    const aclTensor* own = aclCreateTensor(of.dims.data(), of.dims.size(), of.dtype, strides.data(), 0, ACL_FORMAT_ND,
                                           of.dims.data(), of.dims.size(), of.memory);
    lists_.push_back(aclCreateTensorList(&own, 1));
    return lists_.back();
  }
  aclnnStatus multiply(aclTensorList* x, aclTensorList* w, aclTensorList* scale, aclTensorList* rows, aclTensor* groups,
                       int64_t type, aclTensorList* y) {
    return call(BOTH(aclnnGroupedMatmulV5), x, w, nullptr, scale, nullptr, nullptr, nullptr, rows, groups, nullptr,
                nullptr, nullptr, int64_t{3}, int64_t{0}, type, int64_t{0}, nullptr, y, nullptr, nullptr);
  }
  aclnnStatus multiply_v4(aclTensorList* x, aclTensorList* w, aclTensorList* scale, aclTensor* groups,
                          aclTensorList* y) {
    return call(BOTH(aclnnGroupedMatmulV4), x, w, nullptr, scale, nullptr, nullptr, nullptr, nullptr, groups, nullptr,
                nullptr, nullptr, int64_t{3}, int64_t{0}, int64_t{1}, int64_t{0}, y, nullptr, nullptr);
  }

 private:
  std::vector<aclTensorList*> lists_;
};

TEST_F(GroupedProducts, TakeAMatrixForEachGroup) {
  constexpr int64_t m = 9, k = 21, n = 11, experts = 4;
  const Numbers counts = {2, 0, 5, 1};  // the last row is in no group
  for (const aclDataType dtype : {ACL_BF16, ACL_INT8}) {
    const bool int8 = dtype == ACL_INT8;
    const double limit = int8 ? 127 : 2;
    const Numbers a = random(m * k, dtype, limit);
    const Numbers b = random(experts * n * k, dtype, limit);  // [experts, n, k]
    const Numbers scales = random(experts * n, ACL_FLOAT, 0.01);
    const Numbers rows = random(m, ACL_FLOAT, 0.1);
    Numbers expected(m * n, 77);
    int64_t row = 0;
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t i = 0; i < static_cast<int64_t>(counts[static_cast<size_t>(e)]); ++i, ++row) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a[static_cast<size_t>(row * k + l)] * b[static_cast<size_t>((e * n + j) * k + l)];
          if (int8) sum *= scales[static_cast<size_t>(e * n + j)] * rows[static_cast<size_t>(row)];
          expected[static_cast<size_t>(row * n + j)] = sum;
        }
      }
    }
    const DeviceTensor y = tensor({m, n}, ACL_BF16, Numbers(m * n, 77));
    DeviceTensor matrices = tensor({experts, n, k}, dtype, b);
    matrices.dims = {experts, k, n};
    aclTensorList* const w = list(matrices, {n * k, 1, k});
    aclTensorList* const x = list(tensor({m, k}, dtype, a), {k, 1});
    aclTensorList* const scale = int8 ? list(tensor({experts, n}, ACL_FLOAT, scales), {n, 1}) : nullptr;
    aclTensorList* const row_scale = int8 ? list(tensor({m}, ACL_FLOAT, rows), {1}) : nullptr;
    const DeviceTensor groups = tensor({experts}, ACL_INT64, counts);
    ASSERT_EQ(multiply(x, w, scale, row_scale, groups, 1, list(y, {n, 1})), ACLNN_SUCCESS);
    expect_near(download(y), expected, unit(ACL_BF16), 1e-5);
    upload(groups, Numbers{2, 2, 7, 8});
    upload(y, Numbers(m * n, 77));
    ASSERT_EQ(multiply(x, w, scale, row_scale, groups, 0, list(y, {n, 1})), ACLNN_SUCCESS);
    expect_near(download(y), expected, unit(ACL_BF16), 1e-5);
    EXPECT_EQ(multiply(x, w, scale, row_scale, groups, 2, list(y, {n, 1})), ACLNN_ERR_PARAM_INVALID);
  }
}

TEST_F(GroupedProducts, OfInt8TakeTheScalesOfTheirVersion) {
  aclTensorList* const x = list(tensor({2, 3}, ACL_INT8, {1, 2, 3, 4, 5, 6}), {3, 1});
  aclTensorList* const w = list(tensor({1, 3, 2}, ACL_INT8, {1, 0, 0, 1, 1, 1}), {6, 2, 1});
  const DeviceTensor groups = tensor({1}, ACL_INT64, {2});
  const DeviceTensor y = tensor({2, 2}, ACL_BF16);
  ASSERT_EQ(multiply_v4(x, w, list(tensor({1, 2}, ACL_BF16, {0.5, 2}), {2, 1}), groups, list(y, {2, 1})),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{2, 10, 5, 22}));
  aclGetRecentErrMsg();
  aclTensorList* const wide = list(tensor({1, 2}, ACL_FLOAT, {0.5, 2}), {2, 1});
  EXPECT_EQ(multiply_v4(x, w, wide, groups, list(y, {2, 1})), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(std::string(aclGetRecentErrMsg()), testing::HasSubstr("V5 takes them"));
  EXPECT_EQ(multiply(x, w, wide, nullptr, groups, 1, list(y, {2, 1})), ACLNN_SUCCESS);
  const DeviceTensor sums = tensor({2, 2}, ACL_INT32);
  ASSERT_EQ(multiply_v4(x, w, nullptr, groups, list(sums, {2, 1})), ACLNN_SUCCESS);
  EXPECT_EQ(download(sums), (Numbers{4, 5, 10, 11}));
}

TEST_F(GroupedProducts, NoticeGroupsBeyondTheRows) {
  const DeviceTensor y = tensor({2, 2}, ACL_BF16);
  aclTensorList* const x = list(tensor({2, 3}, ACL_BF16, Numbers(6, 1)), {3, 1});
  aclTensorList* const w = list(tensor({2, 3, 2}, ACL_BF16, Numbers(12, 1)), {6, 2, 1});
  EXPECT_NE(multiply(x, w, nullptr, nullptr, tensor({2}, ACL_INT64, {1, 3}), 0, list(y, {2, 1})), ACLNN_SUCCESS);
}

}  // namespace
}  // namespace reprise::emulator
