// Devices, memory, streams and events without captures.
#include <csignal>
#include <cstring>
#include <thread>

#include "emulator/statistics.h"
#include "emulator/tests/runtime_support.h"

namespace reprise::emulator {
namespace {

using Process = testing::Test;
using Memory = RuntimeTest;
using Streams = RuntimeTest;
using Events = RuntimeTest;
using Kernels = RuntimeTest;
using Faults = RuntimeTest;

TEST(Process, RefusesCallsBeforeInitAndASecondInit) {
  uint32_t count = 0;
  EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_ERROR_UNINITIALIZE);
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
  EXPECT_GE(count, 1u);
  EXPECT_EQ(aclrtSetDevice(static_cast<int32_t>(count)), ACL_ERROR_RT_INVALID_DEVICEID);
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

TEST(Process, RefusesAProfileThatItDoesNotUnderstand) {
  setenv("REPRISE_ACL_PROFILE", "910B3,strems=3", 1);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_INVALID_PARAM);
  const char* text = aclGetRecentErrMsg();
  ASSERT_NE(text, nullptr);
  EXPECT_THAT(std::string(text), testing::HasSubstr("strems"));
  unsetenv("REPRISE_ACL_PROFILE");
}

TEST(Process, RefusesAProfileThatIsADirectory) {
  setenv("REPRISE_ACL_PROFILE", "/", 1);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_INVALID_PARAM);
  const char* text = aclGetRecentErrMsg();
  ASSERT_NE(text, nullptr);
  EXPECT_THAT(std::string(text), testing::HasSubstr("'/' cannot be read"));
  unsetenv("REPRISE_ACL_PROFILE");
}

TEST_F(Memory, CannotBeReadByTheHost) {
  int32_t* numbers = make_numbers(4);
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { _exit(3); });
        volatile int32_t value = *numbers;
        (void)value;
        _exit(0);
      },
      testing::ExitedWithCode(3), "");
}

TEST_F(Memory, CopiesInEveryDirection) {
  int32_t* numbers = make_numbers(8);
  const int32_t from[3] = {5, 6, 7};
  int32_t to[3] = {};
  ASSERT_EQ(aclrtMemcpy(numbers, 32, from, 12, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpy(numbers + 4, 16, numbers, 12, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpy(to, 12, numbers + 4, 12, ACL_MEMCPY_DEFAULT), ACL_SUCCESS);
  EXPECT_EQ(std::memcmp(from, to, 12), 0);
  EXPECT_EQ(aclrtMemcpy(to, 8, numbers, 12, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemcpy(numbers, 64, from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  // Rows of two out of rows of four.
  ASSERT_EQ(aclrtMemcpy2d(to, 4, numbers, 16, 4, 2, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  EXPECT_EQ(to[0], 5);
  EXPECT_EQ(to[1], 5);
}

TEST_F(Memory, GivesAlignedAddressesAndSaysWhenItIsFull) {
  restart_with("REPRISE_ACL_PROFILE", "910B3,memory_bytes=16777216,memory_taken=4194304");
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
  EXPECT_EQ(total, 16777216u);
  EXPECT_EQ(free, 12582912u);
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(aclrtMalloc(&first, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  ASSERT_EQ(aclrtMalloc(&first, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(aclrtMalloc(&second, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_EQ(aclrtFree(first), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(first), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMalloc(&second, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  EXPECT_NE(first, second) << "an address rests before it is given again";
}

TEST_F(Memory, AsAddressSpaceOnlyIsCountedAndNotTouched) {
  restart_with("REPRISE_ACL_EXECUTE", "0");
  void* huge = nullptr;
  ASSERT_EQ(aclrtMalloc(&huge, size_t{40} << 30, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  EXPECT_EQ(emulatorHostAddress(huge, 1), nullptr);
  aclrtStream stream = make_stream();
  int32_t* number = static_cast<int32_t*>(huge);
  ASSERT_EQ(launch(kAffine, number, 1, 1, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWrite(huge, 7, 0, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWait(huge, 7, ACL_VALUE_WAIT_EQ, stream), ACL_SUCCESS);
  ASSERT_EQ(sync(stream), ACL_SUCCESS);
  int32_t value = 9;
  ASSERT_EQ(aclrtMemcpy(&value, 4, huge, 4, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  EXPECT_EQ(value, 0);
  char text[1024];
  ASSERT_GT(emulatorStatistics(0, text, sizeof(text)), 0u);
  EXPECT_THAT(std::string(text), testing::HasSubstr("\"kernels\": 1,"));
  EXPECT_THAT(std::string(text), testing::HasSubstr("\"bytes_read\": 1000,"));
}

TEST_F(Streams, RunInOrderAndBesideEachOther) {
  int32_t* number = make_numbers(1);
  void* word = nullptr;
  ASSERT_EQ(aclrtMalloc(&word, 32, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemset(word, 32, 0, 32), ACL_SUCCESS);
  aclrtStream blocked = make_stream();
  aclrtStream other = make_stream();
  ASSERT_EQ(aclrtValueWait(word, 3, ACL_VALUE_WAIT_GEQ, blocked), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number, 10, 2, blocked), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(blocked, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  ASSERT_EQ(aclrtStreamQuery(blocked, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  ASSERT_EQ(launch(kAffine, number, 1, 4, other), ACL_SUCCESS);
  ASSERT_EQ(sync(other), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWrite(word, 3, 0, other), ACL_SUCCESS);
  ASSERT_EQ(sync(blocked), ACL_SUCCESS);
  EXPECT_EQ(read(number), 42);
}

TEST_F(Streams, AreLimitedAndRecognisedOnceDestroyed) {
  restart_with("REPRISE_ACL_PROFILE", "910B3,streams=3");
  aclrtStream first = make_stream();
  aclrtStream second = make_stream();
  aclrtStream third = nullptr;
  EXPECT_EQ(aclrtCreateStream(&third), ACL_ERROR_RT_NO_STREAM_RESOURCE) << "the default stream is one, too";
  EXPECT_EQ(aclrtDestroyStream(first), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(first), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtSynchronizeStream(first), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtCreateStream(&third), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStreamForce(second), ACL_SUCCESS);
}

TEST_F(Streams, AbortEndsAWaitAndLeavesTheStreamUsable) {
  int32_t* number = make_numbers(1);
  aclrtStream stream = make_stream();
  aclrtNotify notify = nullptr;
  ASSERT_EQ(aclrtCreateNotify(&notify, 0), ACL_SUCCESS);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify, stream, 0), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number, 1, 1, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamAbort(stream), ACL_SUCCESS);
  EXPECT_EQ(sync(stream), ACL_ERROR_RT_STREAM_ABORT);
  ASSERT_EQ(launch(kAffine, number, 1, 5, stream), ACL_SUCCESS);
  EXPECT_EQ(sync(stream), ACL_SUCCESS);
  EXPECT_EQ(read(number), 5);
}

TEST_F(Streams, HostFunctionsRunInTheirOrder) {
  int32_t* number = make_numbers(1);
  int32_t* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(reinterpret_cast<void**>(&pinned), 64), ACL_SUCCESS);
  aclrtStream stream = make_stream();
  ASSERT_EQ(launch(kAffine, number, 1, 20, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpyAsync(pinned, 64, number, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchHostFunc(stream, [](void* it) { *static_cast<int32_t*>(it) += 1; }, pinned), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpyAsync(number, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
  ASSERT_EQ(sync(stream), ACL_SUCCESS);
  EXPECT_EQ(read(number), 21);
  EXPECT_EQ(aclrtFreeHost(pinned), ACL_SUCCESS);
}

TEST_F(Streams, CallbacksRunInTheSubscribedThread) {
  aclrtStream stream = make_stream();
  const auto callback = [](void* it) { *static_cast<std::thread::id*>(it) = std::this_thread::get_id(); };
  std::thread::id ran_in;
  EXPECT_EQ(aclrtLaunchCallback(callback, &ran_in, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
  std::thread::id reporter_id;
  std::thread reporter([&] {
    reporter_id = std::this_thread::get_id();
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtLaunchCallback(callback, &ran_in, ACL_CALLBACK_BLOCK, stream), ACL_SUCCESS);
    EXPECT_EQ(aclrtProcessReport(20000), ACL_SUCCESS);
    EXPECT_EQ(aclrtUnSubscribeReport(static_cast<uint64_t>(pthread_self()), stream), ACL_SUCCESS);
  });
  reporter.join();
  ASSERT_EQ(sync(stream), ACL_SUCCESS);
  EXPECT_EQ(ran_in, reporter_id);
}

TEST_F(Events, OrderStreamsAndTheHost) {
  int32_t* number = make_numbers(1);
  aclrtStream producer = make_stream();
  aclrtStream consumer = make_stream();
  aclrtNotify gate = nullptr;
  ASSERT_EQ(aclrtCreateNotify(&gate, 0), ACL_SUCCESS);
  aclrtEvent event = make_event();
  ASSERT_EQ(aclrtWaitAndResetNotify(gate, producer, 0), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number, 1, 3, producer), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event, producer), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(consumer, event), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number, 10, 0, consumer), ACL_SUCCESS);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  ASSERT_EQ(aclrtQueryEventStatus(event, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtRecordNotify(gate, nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event, 20000), ACL_SUCCESS);
  ASSERT_EQ(sync(consumer), ACL_SUCCESS);
  EXPECT_EQ(read(number), 30);
}

TEST_F(Events, OfEitherKindDifferBeforeTheirFirstRecord) {
  aclrtStream stream = make_stream();
  aclrtEvent ex = make_event();
  aclrtEvent ordinary = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&ordinary), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(stream, ex), ACL_SUCCESS);
  EXPECT_EQ(sync(stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(stream, ordinary), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtRecordEvent(ordinary, nullptr), ACL_SUCCESS);
  EXPECT_EQ(sync(stream), ACL_SUCCESS);
}

TEST_F(Events, MeasureTime) {
  aclrtStream stream = make_stream();
  aclrtEvent start = nullptr;
  aclrtEvent end = nullptr;
  ASSERT_EQ(aclrtCreateEventExWithFlag(&start, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateEventExWithFlag(&end, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), ACL_SUCCESS);
  float elapsed = -1;
  EXPECT_EQ(aclrtEventElapsedTime(&elapsed, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  ASSERT_EQ(aclrtRecordEvent(start, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchHostFunc(
                stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr),
            ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(end, stream), ACL_SUCCESS);
  ASSERT_EQ(sync(stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtEventElapsedTime(&elapsed, start, end), ACL_SUCCESS);
  EXPECT_GE(elapsed, 4.9f);
  EXPECT_EQ(aclrtEventElapsedTime(&elapsed, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
}

TEST_F(Events, ExternalOnesAreFlagsThatStreamsRaiseAndLower) {
  aclrtStream waiting = make_stream();
  aclrtStream recording = make_stream();
  aclrtEvent event = nullptr;
  ASSERT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL), ACL_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(aclrtStreamWaitEvent(waiting, event), ACL_SUCCESS);
    ASSERT_EQ(aclrtResetEvent(event, waiting), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(waiting, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    ASSERT_EQ(aclrtRecordEvent(event, recording), ACL_SUCCESS);
    EXPECT_EQ(sync(waiting), ACL_SUCCESS);
  }
  EXPECT_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Kernels, RefuseWhatIsNoKernel) {
  int64_t words[8] = {};
  EXPECT_EQ(aclrtLaunchKernelV2(words, 1, nullptr, 0, nullptr, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtLaunchKernelV2(nullptr, 1, nullptr, 0, nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Kernels, ThatReachFreedMemoryBreakTheDeviceUntilItIsReset) {
  int32_t* number = make_numbers(1);
  ASSERT_EQ(aclrtFree(number), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number, 1, 1, nullptr), ACL_SUCCESS);
  EXPECT_EQ(sync(nullptr), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(std::string(aclGetRecentErrMsg()), testing::HasSubstr("Affine"));
  EXPECT_EQ(launch(kAffine, number, 1, 1, nullptr), ACL_ERROR_RT_AICORE_EXCEPTION);
  ASSERT_EQ(aclrtResetDeviceForce(0), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  number = make_numbers(1);
  ASSERT_EQ(launch(kAffine, number, 1, 1, nullptr), ACL_SUCCESS);
  EXPECT_EQ(sync(nullptr), ACL_SUCCESS);
}

TEST_F(Faults, AKernelThatNeverEndsMeetsTheLimit) {
  restart_with("REPRISE_ACL_FAULT", "timeout:1");
  int32_t* number = make_numbers(1);
  aclrtStream stream = make_stream();
  ASSERT_EQ(launch(kAffine, number, 1, 1, stream), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtStreamAbort(stream), ACL_SUCCESS);
}

TEST_F(Kernels, CoreLimitsAreOfTheStreamOverTheDeviceOverTheChip) {
  aclrtStream stream = make_stream();
  uint32_t cores = 0;
  ASSERT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores), ACL_SUCCESS);
  EXPECT_EQ(cores, 20u);
  ASSERT_EQ(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 12), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 4), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 21), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores), ACL_SUCCESS);
  EXPECT_EQ(cores, 12u);
  ASSERT_EQ(aclrtUseStreamResInCurrentThread(stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores), ACL_SUCCESS);
  EXPECT_EQ(cores, 4u);
  ASSERT_EQ(aclrtUnuseStreamResInCurrentThread(stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtResetDeviceResLimit(0), ACL_SUCCESS);
  ASSERT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores), ACL_SUCCESS);
  EXPECT_EQ(cores, 20u);
}

}  // namespace
}  // namespace reprise::emulator
