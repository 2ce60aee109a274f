// Executors, and operators of elements, rows and indices.
#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

class Executors : public OperatorTest {
 protected:
  aclScalar* one() {
    float value = 1;
    return aclCreateScalar(&value, ACL_FLOAT);
  }
};
using Elements = OperatorTest;
using Rows = OperatorTest;

TEST_F(Executors, AreForOneCallUnlessTheyAreRepeatable) {
  const DeviceTensor x = tensor({3}, ACL_FLOAT, {1, 2, 3});
  const DeviceTensor y = tensor({3}, ACL_FLOAT);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(x, y, &bytes, &executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(nullptr, 0, executor, stream_), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(nullptr, 0, executor, stream_), ACLNN_ERR_INNER_CREATE_EXECUTOR);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACLNN_ERR_PARAM_INVALID);

  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(x, y, &bytes, &executor), ACLNN_SUCCESS);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(nullptr, 0, executor, stream_), ACLNN_SUCCESS);
  const DeviceTensor other = tensor({3}, ACL_FLOAT, {4, 5, 8});
  const DeviceTensor result = tensor({3}, ACL_FLOAT);
  ASSERT_EQ(aclSetInputTensorAddr(executor, 0, x, other.memory), ACLNN_SUCCESS);
  ASSERT_EQ(aclSetOutputTensorAddr(executor, 0, y, result.memory), ACLNN_SUCCESS);
  EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, y, result.memory), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclnnReciprocal(nullptr, 0, executor, stream_), ACLNN_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  expect_near(download(y), {1, 0.5, 1.0 / 3}, 1e-6);
  expect_near(download(result), {0.25, 0.2, 0.125}, 1e-6);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(nullptr, 0, executor, stream_), ACLNN_ERR_INNER_CREATE_EXECUTOR);
}

TEST_F(Executors, TakeTheAddressesOfTensorsInLists) {
  const DeviceTensor x = tensor({2}, ACL_FLOAT, {1, 2});
  const DeviceTensor y = tensor({1}, ACL_FLOAT, {3});
  const DeviceTensor out = tensor({3}, ACL_FLOAT);
  const auto own = [](const DeviceTensor& of) {
    return aclCreateTensor(of.dims.data(), 1, of.dtype, nullptr, 0, ACL_FORMAT_ND, of.dims.data(), 1, of.memory);
  };
  const aclTensor* both[] = {own(x), own(y)};
  aclTensorList* list = aclCreateTensorList(both, 2);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnCatGetWorkspaceSize(list, 0, out, &bytes, &executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclSetDynamicTensorAddr(executor, 0, 1, list, y.memory), ACLNN_ERR_PARAM_INVALID) << "not repeatable";
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), ACLNN_SUCCESS);
  const DeviceTensor other = tensor({1}, ACL_FLOAT, {7});
  const DeviceTensor result = tensor({3}, ACL_FLOAT);
  // The list is the first argument of all, the output the second; each call has two names.
  ASSERT_EQ(aclSetDynamicTensorAddr(executor, 0, 1, list, other.memory), ACLNN_SUCCESS);
  ASSERT_EQ(AclSetTensorAddr(executor, 1, result, result.memory), ACLNN_SUCCESS);
  ASSERT_EQ(aclnnCat(nullptr, 0, executor, stream_), ACLNN_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(download(result), (Numbers{1, 2, 7}));
  ASSERT_EQ(AclSetDynamicInputTensorAddr(executor, 0, 0, list, result.memory), ACLNN_SUCCESS);
  ASSERT_EQ(AclSetDynamicTensorAddr(executor, 0, 1, list, y.memory), ACLNN_SUCCESS);
  ASSERT_EQ(AclSetDynamicOutputTensorAddr(executor, 0, 0, list, out.memory), ACLNN_SUCCESS);
  ASSERT_EQ(aclnnCat(nullptr, 0, executor, stream_), ACLNN_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(download(out), (Numbers{1, 2, 3}));
  ASSERT_EQ(AclSetInputTensorAddr(executor, 0, x, x.memory), ACLNN_SUCCESS);
  ASSERT_EQ(AclSetOutputTensorAddr(executor, 0, out, out.memory), ACLNN_SUCCESS);
  EXPECT_EQ(aclSetDynamicTensorAddr(executor, 0, 2, list, y.memory), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclSetDynamicTensorAddr(executor, 2, 0, list, y.memory), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclSetDynamicTensorAddr(executor, 0, 0, nullptr, y.memory), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclSetTensorAddr(nullptr, 0, x, x.memory), ACLNN_ERR_INNER_NULLPTR);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclDestroyTensorList(list), ACLNN_SUCCESS);
}

TEST_F(Executors, BelongToOneOperator) {
  const DeviceTensor x = tensor({3}, ACL_FLOAT, {1, 2, 3});
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(x, x, &bytes, &executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnSilu(nullptr, 0, executor, stream_), ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR);
  EXPECT_EQ(aclnnSilu(nullptr, 0, nullptr, stream_), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Executors, WantTheirWorkspace) {
  const DeviceTensor x = tensor({2, 6}, ACL_FLOAT, random(12, ACL_FLOAT));
  const DeviceTensor columns = view(x, {2, 3}, {6, 2});
  const DeviceTensor y = tensor({2, 3}, ACL_FLOAT);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(columns, y, &bytes, &executor), ACLNN_SUCCESS);
  ASSERT_GT(bytes, 0u);
  EXPECT_EQ(aclnnReciprocal(nullptr, bytes, executor, stream_), ACLNN_ERR_PARAM_NULLPTR);
  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(columns, y, &bytes, &executor), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(allocate(bytes), bytes - 1, executor, stream_), ACLNN_ERR_PARAM_INVALID);
  // Freed before the kernels run: they notice.
  ASSERT_EQ(aclnnReciprocalGetWorkspaceSize(columns, y, &bytes, &executor), ACLNN_SUCCESS);
  void* freed = nullptr;
  ASSERT_EQ(aclrtMalloc(&freed, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  ASSERT_EQ(aclrtFree(freed), ACL_SUCCESS);
  EXPECT_EQ(aclnnReciprocal(freed, bytes, executor, stream_), ACLNN_SUCCESS);
  EXPECT_NE(sync(stream_), ACL_SUCCESS);
}

TEST_F(Executors, RefuseArgumentsWithATextOfWhy) {
  const DeviceTensor x = tensor({3}, ACL_FLOAT, {1, 2, 3});
  const DeviceTensor other = tensor({4}, ACL_FLOAT);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnSiluGetWorkspaceSize(nullptr, x, &bytes, &executor), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclnnSiluGetWorkspaceSize(x, x, nullptr, &executor), ACLNN_ERR_PARAM_NULLPTR);
  aclGetRecentErrMsg();
  EXPECT_EQ(aclnnSiluGetWorkspaceSize(x, other, &bytes, &executor), ACLNN_ERR_PARAM_INVALID);
  const char* text = aclGetRecentErrMsg();
  ASSERT_NE(text, nullptr);
  EXPECT_THAT(std::string(text), testing::HasSubstr("different shapes"));
}

TEST_F(Executors, AreRefusedForOperatorsAndDtypesThatTheChipHasNot) {
  const auto begin_on = [this](const char* profile) {
    forget();
    restart_with("REPRISE_ACL_PROFILE", profile);
    aclGetRecentErrMsg();
  };
  const auto rotate = [](uint64_t* bytes, aclOpExecutor** executor) {
    return aclnnRopeWithSinCosCacheGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, nullptr, 64, true, nullptr,
                                                    nullptr, bytes, executor);
  };
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(rotate(&bytes, &executor), ACLNN_ERR_PARAM_NULLPTR) << "a 910B3 looks at the arguments";
  begin_on("950");
  EXPECT_EQ(rotate(&bytes, &executor), ACLNN_ERR_PARAM_NULLPTR) << "a 950 too";
  const auto choose = [](uint64_t* size, aclOpExecutor** of) {
    return aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(nullptr, nullptr, 1, nullptr, nullptr, nullptr, size, of);
  };
  EXPECT_EQ(choose(&bytes, &executor), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclnnAscendQuantGetWorkspaceSize(nullptr, nullptr, nullptr, false, nullptr, 2, nullptr, &bytes, &executor),
            ACLNN_ERR_PARAM_INVALID)
      << "only its third version";
  begin_on("310P");
  EXPECT_EQ(choose(&bytes, &executor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(rotate(&bytes, &executor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(std::string(aclGetRecentErrMsg()), testing::HasSubstr("support for Ascend310P is not implemented"));
  const DeviceTensor half = tensor({2}, ACL_FLOAT16, {1, 2});
  const DeviceTensor brain = tensor({2}, ACL_BF16, {1, 2});
  EXPECT_EQ(call(BOTH(aclnnSilu), half.handle, half.handle), ACLNN_SUCCESS);
  EXPECT_EQ(call(BOTH(aclnnSilu), brain.handle, brain.handle), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(std::string(aclGetRecentErrMsg()), testing::HasSubstr("DT_BFLOAT16"));
}

TEST_F(Executors, OfEmptyTensorsLaunchNothing) {
  const DeviceTensor x = tensor({0, 4}, ACL_FLOAT);
  EXPECT_EQ(call(BOTH(aclnnSilu), x.handle, x.handle), ACLNN_SUCCESS);
}

TEST_F(Executors, DescribeTheirTensors) {
  const DeviceTensor x = tensor({2, 3}, ACL_BF16);
  const DeviceTensor columns = view(x, {3, 2}, {1, 3}, 1);
  int64_t* values = nullptr;
  uint64_t count = 0;
  int64_t offset = 0;
  ASSERT_EQ(aclGetViewShape(columns, &values, &count), ACLNN_SUCCESS);
  EXPECT_THAT(std::vector<int64_t>(values, values + count), testing::ElementsAre(3, 2));
  delete[] values;
  ASSERT_EQ(aclGetViewStrides(columns, &values, &count), ACLNN_SUCCESS);
  EXPECT_THAT(std::vector<int64_t>(values, values + count), testing::ElementsAre(1, 3));
  delete[] values;
  ASSERT_EQ(aclGetStorageShape(columns, &values, &count), ACLNN_SUCCESS);
  EXPECT_THAT(std::vector<int64_t>(values, values + count), testing::ElementsAre(6));
  delete[] values;
  EXPECT_EQ(aclGetViewOffset(columns, &offset), ACLNN_SUCCESS);
  EXPECT_EQ(offset, 1);
  EXPECT_EQ(aclGetViewOffset(nullptr, &offset), ACLNN_ERR_PARAM_NULLPTR);
  const int64_t negative = -1;
  EXPECT_EQ(aclCreateTensor(&negative, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
}

TEST_F(Executors, MayBeGivenATensorThatWasMadeAnew) {
  const DeviceTensor x = tensor({2, 3}, ACL_FLOAT, {1, 2, 4, 5, 8, 10});
  const DeviceTensor y = tensor({3}, ACL_FLOAT);
  const DeviceTensor reused = view(x, {1}, {1});
  const int64_t dims[] = {3}, strides[] = {2}, storage[] = {6};
  const auto begin_anew = [&](aclTensor* of, aclDataType dtype, const int64_t* sizes) {
    return aclInitTensor(of, sizes, 1, dtype, strides, 1, ACL_FORMAT_ND, storage, 1, x.memory);
  };
  ASSERT_EQ(begin_anew(reused, ACL_FLOAT, dims), ACLNN_SUCCESS);
  ASSERT_EQ(call(BOTH(aclnnReciprocal), reused.handle, y.handle), ACLNN_SUCCESS);
  expect_near(download(y), {0.5, 0.2, 0.1}, 1e-6);
  EXPECT_EQ(begin_anew(nullptr, ACL_FLOAT, dims), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(begin_anew(reused, ACL_DT_UNDEFINED, dims), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(begin_anew(reused, ACL_FLOAT, nullptr), ACLNN_ERR_PARAM_INVALID);
  ASSERT_EQ(call(BOTH(aclnnReciprocal), reused.handle, y.handle), ACLNN_SUCCESS) << "what was refused changed nothing";

  const aclScalar* scalar = one();
  aclScalarList* list = aclCreateScalarList(&scalar, 1);
  uint64_t size = 0;
  EXPECT_EQ(aclGetScalarListSize(list, &size), ACLNN_SUCCESS);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclGetScalarListSize(list, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclDestroyScalarList(list), ACLNN_SUCCESS);
}

TEST_F(Elements, AreAddedWithBroadcastAndRounding) {
  for (const aclDataType dtype : kFloats) {
    const Numbers a = random(15, dtype);
    const Numbers b = random(5, dtype);
    const DeviceTensor y = tensor({3, 5}, dtype);
    double half = 0.5;
    aclScalar* alpha = aclCreateScalar(&half, ACL_DOUBLE);
    ASSERT_EQ(call(BOTH(aclnnAdd), tensor({3, 5}, dtype, a).handle, tensor({5}, dtype, b).handle, alpha, y.handle),
              ACLNN_SUCCESS);
    Numbers expected(15);
    for (size_t i = 0; i < 15; ++i) {
      expected[i] = stored(dtype, static_cast<float>(a[i]) + 0.5F * static_cast<float>(b[i % 5]));
    }
    EXPECT_EQ(download(y), expected);
    aclDestroyScalar(alpha);
  }
}

TEST_F(Elements, OfDifferentDtypesArePromoted) {
  const Numbers a = random(6, ACL_BF16);
  const Numbers b = random(3, ACL_FLOAT);
  const DeviceTensor y = tensor({2, 3}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnMul), tensor({2, 3}, ACL_BF16, a).handle, tensor({3}, ACL_FLOAT, b).handle, y.handle),
            ACLNN_SUCCESS);
  const Numbers result = download(y);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(result[i], static_cast<double>(static_cast<float>(a[i] * b[i % 3])));
  const DeviceTensor integers = tensor({3}, ACL_INT64, {7, -7, 1LL << 40});
  int64_t two = 2;
  aclScalar* divisor = aclCreateScalar(&two, ACL_INT64);
  const DeviceTensor quotients = tensor({3}, ACL_INT64);
  ASSERT_EQ(call(BOTH(aclnnFloorDivides), integers.handle, divisor, quotients.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(quotients), (Numbers{3, -4, static_cast<double>(1LL << 39)}));
  aclDestroyScalar(divisor);
}

TEST_F(Elements, AreCastAndCopiedThroughViews) {
  const Numbers numbers = {1.5, -2.5, 3e5, -0.25, 7, 100.75};
  const DeviceTensor x = tensor({2, 3}, ACL_FLOAT, numbers);
  const DeviceTensor turned = view(x, {3, 2}, {1, 3});
  const DeviceTensor integers = tensor({3, 2}, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnCast), turned.handle, ACL_INT32, integers.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(integers), (Numbers{1, 0, -2, 7, 300000, 100}));
  const DeviceTensor bytes = tensor({2, 3}, ACL_INT8);
  ASSERT_EQ(call(BOTH(aclnnCast), x.handle, ACL_INT8, bytes.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(bytes), (Numbers{1, -2, 127, 0, 7, 100}));

  const DeviceTensor wide = tensor({4, 5}, ACL_BF16, Numbers(20, 9));
  const DeviceTensor middle = view(wide, {3, 2}, {5, 2}, 6);
  ASSERT_EQ(call(BOTH(aclnnInplaceCopy), middle.handle, turned.handle), ACLNN_SUCCESS);
  const Numbers result = download(wide);
  EXPECT_EQ(result[6], 1.5);
  EXPECT_EQ(result[8], -0.25);
  EXPECT_EQ(result[16], stored(ACL_BF16, 3e5));
  EXPECT_EQ(std::count(result.begin(), result.end(), 9), 14);
}

TEST_F(Elements, AreFilledMaskedAndConcatenated) {
  const DeviceTensor y = tensor({3, 3}, ACL_INT32);
  int32_t value = 5;
  aclScalar* five = aclCreateScalar(&value, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnInplaceFillScalar), y.handle, five), ACLNN_SUCCESS);
  value = -1;
  aclScalar* minus = aclCreateScalar(&value, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnInplaceMaskedFillScalar), y.handle, tensor({3, 1}, ACL_BOOL, {0, 1, 0}).handle, minus),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{5, 5, 5, -1, -1, -1, 5, 5, 5}));
  aclDestroyScalar(five);
  aclDestroyScalar(minus);

  float zero_to_three[] = {0, 3, 1};
  aclScalar* limits[] = {aclCreateScalar(&zero_to_three[0], ACL_FLOAT), aclCreateScalar(&zero_to_three[1], ACL_FLOAT),
                         aclCreateScalar(&zero_to_three[2], ACL_FLOAT)};
  const DeviceTensor range = tensor({3}, ACL_INT32);
  ASSERT_EQ(call(BOTH(aclnnArange), limits[0], limits[1], limits[2], range.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(range), (Numbers{0, 1, 2}));
  for (aclScalar* scalar : limits) aclDestroyScalar(scalar);

  const int64_t dims[] = {2, 1};
  const DeviceTensor a = tensor({2, 1}, ACL_FLOAT, {1, 2});
  aclTensor* parts[2];
  for (aclTensor*& part : parts) {
    part = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, a.memory);
  }
  aclTensorList* list = aclCreateTensorList(parts, 2);
  const DeviceTensor both = tensor({2, 2}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnCat), list, int64_t{1}, both.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(both), (Numbers{1, 1, 2, 2}));
  EXPECT_EQ(aclDestroyTensorList(list), ACLNN_SUCCESS);
}

TEST_F(Elements, HaveBitsAndSums) {
  const DeviceTensor x = tensor({4}, ACL_INT64, {0x12345678, 7, 255, 1});
  const DeviceTensor y = tensor({4}, ACL_INT64);
  ASSERT_EQ(call(BOTH(aclnnRightShift), x.handle, tensor({1}, ACL_INT64, {4}).handle, y.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{0x1234567, 0, 15, 0}));
  ASSERT_EQ(call(BOTH(aclnnBitwiseXorTensor), x.handle, tensor({1}, ACL_INT64, {3}).handle, y.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{0x1234567B, 4, 252, 2}));
  ASSERT_EQ(call(BOTH(aclnnCumsum), x.handle, int64_t{0}, ACL_INT64, y.handle), ACLNN_SUCCESS);
  EXPECT_EQ(download(y), (Numbers{0x12345678, 0x1234567F, 0x1234577E, 0x1234577F}));
  const int64_t axis = 1;
  aclIntArray* axes = aclCreateIntArray(&axis, 1);
  const DeviceTensor sums = tensor({2}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnReduceSum), tensor({2, 3}, ACL_FLOAT, {1, 2, 3, 4, 5, 6}).handle, axes, false, ACL_FLOAT,
                 sums.handle),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(sums), (Numbers{6, 15}));
  aclDestroyIntArray(axes);
}

TEST_F(Rows, AreLookedUp) {
  const Numbers numbers = random(4 * 7, ACL_BF16);
  const DeviceTensor table = tensor({4, 7}, ACL_BF16, numbers);
  const DeviceTensor y = tensor({3, 7}, ACL_BF16);
  ASSERT_EQ(call(BOTH(aclnnEmbedding), table.handle, tensor({3}, ACL_INT32, {3, -1, 0}).handle, y.handle),
            ACLNN_SUCCESS);
  const Numbers result = download(y);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(result[i], numbers[21 + i]);
    EXPECT_TRUE(std::isnan(result[7 + i]));  // undefined there, so that whoever reads it notices
    EXPECT_EQ(result[14 + i], numbers[i]);
  }
  const DeviceTensor columns = tensor({4, 2}, ACL_BF16);
  ASSERT_EQ(
      call(BOTH(aclnnIndexSelect), table.handle, int64_t{1}, tensor({2}, ACL_INT64, {6, 1}).handle, columns.handle),
      ACLNN_SUCCESS);
  EXPECT_EQ(download(columns)[2], numbers[7 + 6]);
  EXPECT_EQ(download(columns)[3], numbers[7 + 1]);
  const DeviceTensor best = tensor({2}, ACL_INT64);
  ASSERT_EQ(
      call(BOTH(aclnnArgMax), tensor({2, 3}, ACL_FLOAT, {1, 5, 5, -1, -3, -2}).handle, int64_t{-1}, false, best.handle),
      ACLNN_SUCCESS);
  EXPECT_EQ(download(best), (Numbers{1, 0}));
}

TEST_F(Rows, AreScatteredAlongAnAxis) {
  const DeviceTensor cache = tensor({2, 1, 4, 2}, ACL_BF16, Numbers(16, 0));
  const DeviceTensor updates = tensor({2, 1, 1, 2}, ACL_BF16, {1, 2, 3, 4});
  const DeviceTensor indices = tensor({2}, ACL_INT32, {3, 1});
  ASSERT_EQ(call(BOTH(aclnnInplaceScatterUpdate), cache.handle, indices.handle, updates.handle, int64_t{-2}),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(cache), (Numbers{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0}));
  upload(indices, Numbers{3, 4});
  EXPECT_NE(call(BOTH(aclnnInplaceScatterUpdate), cache.handle, indices.handle, updates.handle, int64_t{-2}),
            ACLNN_SUCCESS);
}

TEST_F(Rows, OfSlotsGoIntoPages) {
  // Keys and values are parts of wider rows.
  const DeviceTensor both = tensor({3, 4, 8}, ACL_BF16, random(96, ACL_BF16));
  const DeviceTensor keys = view(both, {3, 2, 8}, {32, 8, 1});
  const DeviceTensor values = view(both, {3, 2, 8}, {32, 8, 1}, 16);
  const DeviceTensor key_cache = tensor({2, 16, 2, 8}, ACL_BF16, Numbers(512, 0));
  const DeviceTensor value_cache = tensor({2, 16, 2, 8}, ACL_BF16, Numbers(512, 0));
  const DeviceTensor slots = tensor({3}, ACL_INT32, {17, -1, 0});
  const auto scatter = [&] {
    return call(BOTH(aclnnScatterPaKvCache), keys.handle, key_cache.handle, slots.handle, values.handle,
                value_cache.handle, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  ASSERT_EQ(scatter(), ACLNN_SUCCESS);
  const Numbers from = download(both);
  const Numbers key_result = download(key_cache);
  const Numbers value_result = download(value_cache);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(key_result[17 * 16 + i], from[i]);
    EXPECT_EQ(key_result[i], from[64 + i]);
    EXPECT_EQ(value_result[17 * 16 + i], from[16 + i]);
  }
  EXPECT_EQ(std::count(key_result.begin(), key_result.end(), 0), 512 - 32);
  upload(slots, Numbers{0, 1, 32});
  EXPECT_NE(scatter(), ACLNN_SUCCESS);
}

}  // namespace
}  // namespace reprise::emulator
