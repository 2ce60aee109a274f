// The validation layer about what operators' calls are made of, and about pinned memory.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_meta.h"
#include "device/ascend/interface/acl_operators.h"
#include "emulator/tests/validation_support.h"

namespace reprise::emulator {
namespace {

using testing::HasSubstr;
using testing::Not;

class ValidatedObjects : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(path_);
    setenv("REPRISE_ACL_VALIDATE", path_.c_str(), 1);
    ACL_OK(aclInit(nullptr));
    ACL_OK(aclrtSetDevice(0));
    ACL_OK(aclrtCreateStream(&stream_));
    ACL_OK(aclrtMalloc(&memory_, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    ACL_OK(aclrtMemset(memory_, 4096, 0, 4096));
  }
  void TearDown() override {
    unsetenv("REPRISE_ACL_VALIDATE");
    std::filesystem::remove(path_);
  }
  // Gives back what SetUp() took, ends the interface and answers what the layer wrote.
  std::string end() {
    ACL_EXPECT_OK(aclrtDestroyStream(stream_));
    ACL_EXPECT_OK(aclrtFree(memory_));
    ACL_EXPECT_OK(aclrtResetDevice(0));
    ACL_EXPECT_OK(aclFinalize());
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  aclTensor* make_tensor() {
    const int64_t dims[] = {8};
    return aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, memory_);
  }
  static aclScalar* make_scalar() {
    float one = 1;
    return aclCreateScalar(&one, ACL_FLOAT);
  }
  static aclIntArray* make_array() {
    const int64_t values[] = {0, 1};
    return aclCreateIntArray(values, 2);
  }
  aclnnStatus prepare_add(const aclTensor* tensor, const aclScalar* alpha, aclOpExecutor** executor) {
    uint64_t bytes = 0;
    return aclnnAddGetWorkspaceSize(tensor, tensor, alpha, const_cast<aclTensor*>(tensor), &bytes, executor);
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("acl_objects." + std::to_string(getpid()));
  aclrtStream stream_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(ValidatedObjects, AreReportedWhenTheyAreDestroyedTwice) {
  const std::array<float, 1> floats{};
  const std::array<bool, 1> bools{};
  const aclTensor* in_list = make_tensor();
  aclScalar* scalar_in_list = make_scalar();
  aclTensor* tensor = make_tensor();
  aclScalar* scalar = make_scalar();
  aclIntArray* integers = make_array();
  aclFloatArray* numbers = aclCreateFloatArray(floats.data(), 1);
  aclBoolArray* booleans = aclCreateBoolArray(bools.data(), 1);
  aclTensorList* tensors = aclCreateTensorList(&in_list, 1);
  aclScalarList* scalars = aclCreateScalarList(&scalar_in_list, 1);
  aclOpExecutor* executor = nullptr;
  ACL_OK(prepare_add(tensor, scalar, &executor));
  ACL_OK(aclSetAclOpExecutorRepeatable(executor));
  const auto destroy = [&](auto&& check) {
    check(aclDestroyTensor(tensor));
    check(aclDestroyScalar(scalar));
    check(aclDestroyIntArray(integers));
    check(aclDestroyFloatArray(numbers));
    check(aclDestroyBoolArray(booleans));
    check(aclDestroyTensorList(tensors));
    check(aclDestroyScalarList(scalars));
    check(aclDestroyAclOpExecutor(executor));
  };
  destroy([](aclnnStatus status) { EXPECT_EQ(status, ACLNN_SUCCESS); });
  destroy([](aclnnStatus status) {
    EXPECT_EQ(status, ACLNN_ERR_PARAM_INVALID);
    EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr("destroyed"));
  });
  const std::string text = end();
  for (const char* what :
       {"tensor", "scalar", "array of integers", "array of floats", "array of booleans", "executor"}) {
    expect_report(text, std::string("destroyed-twice: the ") + what, {"destroyed again", "destroyed first", "created"});
  }
  // A list looks at its elements before it goes.
  for (const char* what : {"list of tensors", "list of scalars"}) {
    expect_report(text, std::string("used-after-destroy: the ") + what, {"used", "destroyed", "created"});
  }
  EXPECT_THAT(text, Not(HasSubstr("leak")));
}

TEST_F(ValidatedObjects, OfAListAreDestroyedByIt) {
  const aclTensor* before = make_tensor();
  const aclTensor* behind = make_tensor();
  const aclTensor* elements[] = {before, behind, nullptr};
  aclTensorList* list = aclCreateTensorList(elements, 3);
  ACL_OK(aclDestroyTensor(before));
  EXPECT_EQ(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyTensor(behind), ACLNN_ERR_PARAM_INVALID);
  const std::string text = end();
  EXPECT_THAT(text, testing::ContainsRegex("destroyed again: aclDestroyTensorList [^\n]*\n"
                                           "  destroyed first: aclDestroyTensor "));
  EXPECT_THAT(text, testing::ContainsRegex("destroyed again: aclDestroyTensor [^\n]*\n"
                                           "  destroyed first: aclDestroyTensorList "));
  EXPECT_THAT(text, HasSubstr("acl validation: 2 problems\n"));
}

TEST_F(ValidatedObjects, AreReportedWhenTheyAreUsedBehindTheirEnd) {
  aclTensor* tensor = make_tensor();
  aclTensor* live = make_tensor();
  aclScalar* scalar = make_scalar();
  aclIntArray* axes = make_array();
  ACL_OK(aclDestroyTensor(tensor));
  ACL_OK(aclDestroyScalar(scalar));
  ACL_OK(aclDestroyIntArray(axes));
  int64_t* dims = nullptr;
  uint64_t count = 0;
  EXPECT_EQ(aclGetViewShape(tensor, &dims, &count), ACLNN_ERR_PARAM_INVALID);
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(prepare_add(live, scalar, &executor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr("alpha"));
  EXPECT_EQ(aclnnReduceSumGetWorkspaceSize(live, axes, false, ACL_FLOAT, live, &count, &executor),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclCreateTensorList(&tensor, 1), nullptr);
  ACL_OK(aclDestroyTensor(live));
  const std::string text = end();
  for (const char* what : {"tensor", "scalar", "array of integers"}) {
    expect_report(text, std::string("used-after-destroy: the ") + what, {"used", "destroyed", "created"});
  }
  EXPECT_THAT(text, HasSubstr("used: aclnnAddGetWorkspaceSize"));
  EXPECT_THAT(text, HasSubstr("used: aclnnReduceSumGetWorkspaceSize"));
}

TEST_F(ValidatedObjects, ThatAreExecutorsServeOneCall) {
  aclTensor* tensor = make_tensor();
  aclScalar* scalar = make_scalar();
  aclOpExecutor* executor = nullptr;
  ACL_OK(prepare_add(tensor, scalar, &executor));
  ACL_OK(aclnnAdd(nullptr, 0, executor, stream_));
  EXPECT_EQ(aclnnAdd(nullptr, 0, executor, stream_), ACLNN_ERR_INNER_CREATE_EXECUTOR);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACLNN_ERR_PARAM_INVALID);
  ACL_OK(aclDestroyTensor(tensor));
  ACL_OK(aclDestroyScalar(scalar));
  const std::string text = end();
  expect_report(text, "used-after-destroy: the executor", {"used", "destroyed", "created"});
  expect_report(text, "destroyed-twice: the executor", {"destroyed again", "destroyed first", "created"});
  EXPECT_THAT(text, HasSubstr("destroyed: aclnnAdd"));
  EXPECT_THAT(text, HasSubstr("acl validation: 2 problems\n"));
}

TEST_F(ValidatedObjects, ThatAreExecutorsEndWithASecondPhaseThatFails) {
  end();
  setenv("REPRISE_ACL_FAULT", "operator:2,operator:4", 1);
  SetUp();
  unsetenv("REPRISE_ACL_FAULT");
  aclTensor* tensor = make_tensor();
  aclScalar* scalar = make_scalar();
  std::array<aclOpExecutor*, 2> executors{};
  ACL_OK(prepare_add(tensor, scalar, &executors[0]));
  EXPECT_NE(aclnnAdd(nullptr, 0, executors[0], stream_), ACLNN_SUCCESS);
  ACL_OK(prepare_add(tensor, scalar, &executors[1]));
  ACL_OK(aclSetAclOpExecutorRepeatable(executors[1]));
  EXPECT_NE(aclnnAdd(nullptr, 0, executors[1], stream_), ACLNN_SUCCESS);
  ACL_EXPECT_OK(aclDestroyAclOpExecutor(executors[1]));
  ACL_EXPECT_OK(aclDestroyTensor(tensor));
  ACL_EXPECT_OK(aclDestroyScalar(scalar));
  EXPECT_THAT(end(), HasSubstr("acl validation: 0 problems\n"));
}

// Each call is one of many: what it uses must outlive it, however many objects others destroy meanwhile.
TEST_F(ValidatedObjects, LiveUntilTheCallsThatUseThemAreOver) {
  end();
  // Without validation there are more calls at once.
  unsetenv("REPRISE_ACL_VALIDATE");
  ACL_OK(aclInit(nullptr));
  ACL_OK(aclrtSetDevice(0));
  ACL_OK(aclrtCreateStream(&stream_));
  ACL_OK(aclrtMalloc(&memory_, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
  ACL_OK(aclrtMemset(memory_, 4096, 0, 4096));
  constexpr size_t kThreads = 32;
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      failures += aclrtSetDevice(0) != ACL_SUCCESS;
      aclrtStream stream = nullptr;
      failures += aclrtCreateStream(&stream) != ACL_SUCCESS;
      void* own = nullptr;
      constexpr size_t kWorkspace = 8192;
      failures += aclrtMalloc(&own, kWorkspace + 1024, ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS;
      void* to = static_cast<std::byte*>(own) + kWorkspace;
      const int64_t dims[] = {8, 8};
      const int64_t exchanged[] = {1, 8};  // costs a copy, so that there are kernels behind the first
      for (int call = 0; call < 2000; ++call) {
        aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT, exchanged, 0, ACL_FORMAT_ND, dims, 2, memory_);
        aclTensor* out = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, to);
        aclScalar* scalar = make_scalar();
        aclOpExecutor* executor = nullptr;
        uint64_t bytes = 0;
        failures += aclnnAddGetWorkspaceSize(tensor, tensor, scalar, out, &bytes, &executor) != ACLNN_SUCCESS;
        failures += bytes > kWorkspace || aclnnAdd(own, bytes, executor, stream) != ACLNN_SUCCESS;
        failures += aclDestroyTensor(out) != ACLNN_SUCCESS;
        failures += aclDestroyTensor(tensor) != ACLNN_SUCCESS;
        failures += aclDestroyScalar(scalar) != ACLNN_SUCCESS;
        if (call % 64 == 0) failures += aclrtSynchronizeStream(stream) != ACL_SUCCESS;
      }
      failures += aclrtSynchronizeStream(stream) != ACL_SUCCESS;
      failures += aclrtFree(own) != ACL_SUCCESS;
      failures += aclrtDestroyStream(stream) != ACL_SUCCESS;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  end();
}

TEST_F(ValidatedObjects, AreReportedWhenTheyAreLeft) {
  aclTensor* tensor = make_tensor();
  const aclTensor* in_list = make_tensor();
  aclScalar* scalar = make_scalar();
  aclIntArray* array = make_array();
  aclTensorList* list = aclCreateTensorList(&in_list, 1);
  aclOpExecutor* executors[] = {nullptr, nullptr};
  for (aclOpExecutor*& executor : executors) ACL_OK(prepare_add(tensor, scalar, &executor));
  ACL_OK(aclSetAclOpExecutorRepeatable(executors[1]));
  const std::string text = end();
  for (const char* what : {"tensor 0x", "scalar", "array of integers", "list of tensors", "executor"}) {
    expect_report(text, std::string("leak: ") + what, {"created", "ended"});
  }
  EXPECT_THAT(text, testing::ContainsRegex("leak: executor [^\n]* and 1 more of the same place"));
  // They are the host's, and can still be destroyed.
  for (aclOpExecutor* executor : executors) ACL_EXPECT_OK(aclDestroyAclOpExecutor(executor));
  ACL_EXPECT_OK(aclDestroyTensorList(list));
  ACL_EXPECT_OK(aclDestroyTensor(tensor));
  ACL_EXPECT_OK(aclDestroyScalar(scalar));
  ACL_EXPECT_OK(aclDestroyIntArray(array));
}

TEST_F(ValidatedObjects, AreKnownByTheirAddress) {
  // What looks like an object, and an object of another kind.
  double nothing[64] = {};
  auto* tensor = reinterpret_cast<aclTensor*>(nothing);
  aclScalar* scalar = make_scalar();
  aclDataType dtype = ACL_FLOAT;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyTensor(reinterpret_cast<aclTensor*>(scalar)), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclGetDataType(reinterpret_cast<aclTensor*>(uintptr_t{64}), &dtype), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(prepare_add(tensor, scalar, &executor), ACLNN_ERR_PARAM_INVALID);
  ACL_EXPECT_OK(aclDestroyScalar(scalar));
  EXPECT_EQ(end(), kClean);
}

TEST_F(ValidatedObjects, AreForgottenInTheEnd) {
  // Enough to fill what is kept of the destroyed ones.
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(aclDestroyScalar(make_scalar()), ACLNN_SUCCESS);
  EXPECT_EQ(end(), kClean);
}

TEST_F(ValidatedObjects, OfMoreElementsThanCanBeCountedAreRefused) {
  constexpr int64_t kMany = int64_t{1} << 40;
  struct Shape {
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    std::vector<int64_t> storage;
    int64_t offset = 0;
  };
  const std::array<Shape, 6> shapes = {{
      {{kMany, kMany}, {kMany, 1}, {1}},
      {{int64_t{1} << 61, 1}, {1, 1}, {1}},  // whose bytes do not fit
      {{0, kMany, kMany}, {1, 1, 1}, {1}},   // empty, but what is left of it could not be counted
      {{2, 2}, {INT64_MAX, 1}, {4}},
      {{1}, {1}, {kMany, kMany}},
      {{2}, {1}, {2}, INT64_MAX},
  }};
  for (const Shape& it : shapes) {
    EXPECT_EQ(aclCreateTensor(it.dims.data(), it.dims.size(), ACL_FLOAT, it.strides.data(), it.offset, ACL_FORMAT_ND,
                              it.storage.data(), it.storage.size(), memory_),
              nullptr);
    EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr("[161002] aclCreateTensor"));
  }
  const int64_t count = int64_t{1} << 61;
  EXPECT_EQ(aclCreateIntArray(&count, uint64_t{1} << 61), nullptr);
  // A tensor that can be counted, and whose workspace cannot: as many elements of twice the size.
  const int64_t dims[] = {2, int64_t{1} << 60};
  const int64_t strides[] = {1, 2};
  aclTensor* wide = aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 0, ACL_FORMAT_ND, dims, 2, memory_);
  ASSERT_NE(wide, nullptr);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnSiluGetWorkspaceSize(wide, wide, &bytes, &executor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr("can be counted"));
  ACL_EXPECT_OK(aclDestroyTensor(wide));
  EXPECT_EQ(end(), kClean);
}

// Sanitizers keep freed memory for themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// Kilobytes of memory that the process has.
int64_t resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST_F(ValidatedObjects, LeaveNoRecordsThatGrow) {
  if (kSanitized) {
    (void)end();
    GTEST_SKIP() << "its memory is not the emulator's alone";
  }
  const auto work = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      aclTensor* tensor = make_tensor();
      aclScalar* scalar = make_scalar();
      aclOpExecutor* executor = nullptr;
      ACL_OK(prepare_add(tensor, scalar, &executor));
      ACL_OK(aclnnAdd(nullptr, 0, executor, stream_));
      void* memory = nullptr;
      void* pinned = nullptr;
      ACL_OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
      ACL_OK(aclrtMallocHost(&pinned, 64));
      ACL_OK(aclrtMemcpyAsync(memory, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
      ACL_OK(aclrtSynchronizeStream(stream_));
      ACL_OK(aclrtFree(memory));
      ACL_OK(aclrtFreeHost(pinned));
      ACL_OK(aclDestroyTensor(tensor));
      ACL_OK(aclDestroyScalar(scalar));
      if (i % 100 != 0) continue;
      aclrtStream stream = nullptr;
      ACL_OK(aclrtCreateStream(&stream));
      ACL_OK(aclrtMemsetAsync(memory_, 64, 0, 64, stream));
      ACL_OK(aclrtSynchronizeStream(stream));
      ACL_OK(aclrtDestroyStream(stream));
    }
  };
  work(4500);
  const int64_t before = resident_kilobytes();
  work(3000);
  EXPECT_LT(resident_kilobytes() - before, 1024);
  EXPECT_EQ(end(), kClean);
}

// Pinned memory of a copy in a graph, either way, that goes before the graph runs.
TEST_F(ValidatedObjects, ThatGraphsCopyAreReportedWhenTheyAreFreed) {
  for (const bool to_host : {false, true}) {
    void* pinned = nullptr;
    ACL_OK(aclrtMallocHost(&pinned, 4 << 20));
    aclmdlRI graph = nullptr;
    ACL_OK(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    void* to = to_host ? pinned : memory_;
    const void* from = to_host ? memory_ : pinned;
    ACL_OK(
        aclrtMemcpyAsync(to, 64, from, 64, to_host ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_DEVICE, stream_));
    ACL_OK(aclmdlRICaptureEnd(stream_, &graph));
    ACL_OK(aclrtFreeHost(pinned));
    ACL_OK(aclmdlRIExecuteAsync(graph, stream_));
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 5000), ACL_ERROR_RT_AICORE_EXCEPTION);
    ACL_OK(aclmdlRIDestroy(graph));
    const std::string text = end();
    expect_report(text, "freed-before-graph", {"freed", "captured", "allocated"});
    expect_report(text, "freed-memory-replayed", {"replayed", "freed", "captured", "allocated"});
    EXPECT_THAT(text, HasSubstr("freed: aclrtFreeHost"));
    if (!to_host) SetUp();
  }
}

TEST_F(ValidatedObjects, ThatACopyStillWritesAreReportedWhenTheyAreFreed) {
  void* pinned = nullptr;
  ACL_OK(aclrtMallocHost(&pinned, 64));
  ACL_OK(aclrtValueWait(memory_, 1, ACL_VALUE_WAIT_EQ, stream_));
  ACL_OK(aclrtMemcpyAsync(pinned, 64, static_cast<char*>(memory_) + 64, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream_));
  ACL_OK(aclrtFreeHost(pinned));
  const uint64_t open = 1;
  ACL_OK(aclrtMemcpy(memory_, 8, &open, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  aclrtStream opener = nullptr;
  ACL_OK(aclrtCreateStream(&opener));
  ACL_OK(aclrtValueWrite(memory_, 1, 0, opener));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 5000), ACL_ERROR_RT_AICORE_EXCEPTION);
  ACL_OK(aclrtDestroyStream(opener));
  expect_report(end(), "host-memory-changed: pinned memory", {"freed", "submitted"});
}

}  // namespace
}  // namespace reprise::emulator
