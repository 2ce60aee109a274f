// What a capture records and refuses, forks and joins, external events.
#include <thread>

#include "emulator/tests/graph_support.h"

namespace reprise::emulator {
namespace {

using Capturing = GraphTest;
using ForkAndJoin = GraphTest;
using ExternalEvents = GraphTest;

TEST_F(Capturing, RecordsAndDoesNotRun) {
  begin(stream_);
  EXPECT_EQ(status_of(stream_), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(launch(kAffine, number_, 1, 5, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  EXPECT_EQ(status_of(stream_), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, nullptr), ACL_SUCCESS) << "the default stream may run it";
  ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 25);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Capturing, RefusesWhatAStreamThatCapturesMayNotDo) {
  aclrtStreamStatus status;
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(aclmdlRICaptureBegin(stream_, kThreadLocal), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(aclrtStreamQuery(stream_, &status), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(aclrtDestroyStream(stream_), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_STREAM_CAPTURED);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureGetInfo(stream_, nullptr, &graph), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_ERROR_RT_MODEL_CAPTURED);
  EXPECT_EQ(aclmdlRIExecuteAsync(graph, nullptr), ACL_ERROR_RT_MODEL_CAPTURED);
  int32_t pageable = 0;
  EXPECT_EQ(aclrtMemcpyAsync(&pageable, 4, number_, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream_), ACL_ERROR_RT_PARAM_INVALID);
  aclmdlRI ended = end(stream_);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(end_code(stream_), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  EXPECT_EQ(aclmdlRICaptureBegin(nullptr, kThreadLocal), ACL_ERROR_INVALID_PARAM);
  aclrtStream implicit = nullptr;
  ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&implicit), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRICaptureBegin(implicit, kThreadLocal), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

TEST_F(Capturing, ModesGateUnsafeCallsByThread) {
  const auto fill = [&] { return aclrtMemset(number_, 4, 0, 4); };
  const auto fill_elsewhere = [&] {
    aclError code = ACL_SUCCESS;
    std::thread([&] {
      EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
      code = fill();
    }).join();
    return code;
  };
  const aclError refused = ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT;
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(fill(), refused);
  EXPECT_EQ(fill_elsewhere(), refused);
  aclrtStream other = make_stream();
  int32_t pageable = 0;
  EXPECT_EQ(aclrtMemcpyAsync(&pageable, 4, number_, 4, ACL_MEMCPY_DEVICE_TO_HOST, other),
            ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(aclmdlRICaptureThreadExchangeMode(&mode), ACL_SUCCESS);
  EXPECT_EQ(mode, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(fill(), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureThreadExchangeMode(&mode), ACL_SUCCESS);
  end(stream_);
  begin(stream_, kThreadLocal);
  EXPECT_EQ(fill(), refused);
  EXPECT_EQ(fill_elsewhere(), ACL_SUCCESS);
  end(stream_);
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(fill(), ACL_SUCCESS);
  end(stream_);
}

TEST_F(Capturing, EndsInItsThreadUnlessItIsRelaxed) {
  const auto end_elsewhere = [&] {
    aclError code = ACL_SUCCESS;
    std::thread([&] {
      EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
      aclmdlRI graph = nullptr;
      code = aclmdlRICaptureEnd(stream_, &graph);
    }).join();
    return code;
  };
  begin(stream_, kThreadLocal);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureGetInfo(stream_, nullptr, &graph), ACL_SUCCESS);
  EXPECT_EQ(end_elsewhere(), ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_ERROR_RT_MODEL_EXECUTE);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(end_elsewhere(), ACL_SUCCESS);
}

TEST_F(ForkAndJoin, RunsBothLinesWithTheirEdges) {
  aclrtStream side = make_stream();
  aclrtEvent fork = make_event();
  aclrtEvent join = make_event();
  begin(stream_);
  ASSERT_EQ(launch(kAffine, number_, 1, 3, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(fork, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(side, fork), ACL_SUCCESS);
  EXPECT_EQ(status_of(side), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  aclrtEventRecordedStatus status;
  EXPECT_EQ(aclrtSynchronizeEvent(fork), ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT_EQ(aclrtQueryEventStatus(fork, &status), ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT_EQ(aclrtStreamWaitEvent(nullptr, fork), ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(end_code(side), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  ASSERT_EQ(launch(kAffine, number_, 5, 0, side), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_ + 1, 1, 7, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(join, side), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, join), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 1, 2, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  EXPECT_EQ(status_of(side), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  for (int32_t i = 1; i <= 20; ++i) {
    write(number_, 0);
    ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
    EXPECT_EQ(read(number_), 17);
    EXPECT_EQ(read(number_ + 1), 7 * i);
  }
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(fork, 1000), ACL_SUCCESS) << "an ordinary event again";
}

TEST_F(ForkAndJoin, UnjoinedOrWorkAfterTheJoinFailsAtTheEnd) {
  aclrtStream side = make_stream();
  aclrtEvent fork = make_event();
  aclrtEvent join = make_event();
  for (const bool joined : {false, true}) {
    begin(stream_);
    ASSERT_EQ(aclrtRecordEvent(fork, stream_), ACL_SUCCESS);
    ASSERT_EQ(aclrtStreamWaitEvent(side, fork), ACL_SUCCESS);
    if (joined) {
      ASSERT_EQ(aclrtRecordEvent(join, side), ACL_SUCCESS);
      ASSERT_EQ(aclrtStreamWaitEvent(stream_, join), ACL_SUCCESS);
    }
    ASSERT_EQ(launch(kAffine, number_, 1, 1, side), ACL_SUCCESS);
    EXPECT_EQ(end_code(stream_), ACL_ERROR_RT_STREAM_UNJOINED);
    EXPECT_EQ(status_of(side), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  }
}

TEST_F(ForkAndJoin, AnEventFromOutsideIsRefusedAndOneOfAnotherGraphEndsBoth) {
  aclrtStream other = make_stream();
  aclrtEvent event = make_event();
  ASSERT_EQ(aclrtRecordEvent(event, other), ACL_SUCCESS);
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, event), ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  EXPECT_EQ(status_of(stream_), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  aclrtEvent ordinary = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&ordinary), ACL_SUCCESS);
  EXPECT_EQ(aclrtRecordEvent(ordinary, stream_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, ordinary), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(aclrtResetEvent(event, stream_), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtEvent never = make_event();
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, never), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event, stream_), ACL_SUCCESS);
  begin(other, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(aclrtStreamWaitEvent(other, event), ACL_ERROR_STREAM_CAPTURE_CONFLICT);
  EXPECT_EQ(status_of(stream_), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end_code(stream_), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end_code(other), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  begin(stream_);
  end(stream_);
}

TEST_F(ExternalEvents, OfTheOldKindAreNodesAndJoinNothing) {
  aclrtStream updates = make_stream();
  aclrtEvent event = nullptr;
  ASSERT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL), ACL_SUCCESS);
  begin(stream_);
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, event), ACL_SUCCESS);
  ASSERT_EQ(aclrtResetEvent(event, stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event, updates), ACL_SUCCESS);
  EXPECT_EQ(status_of(updates), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  aclmdlRI graph = end(stream_);
  ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtRecordEvent(event, updates), ACL_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 2);
}

TEST_F(ExternalEvents, ByFlagKeepTheirDirectionAndBindAtLaunch) {
  aclrtEvent out = make_event();
  aclrtEvent in = make_event();
  EXPECT_EQ(aclrtRecordEventWithFlag(out, stream_, ACL_EVENT_RECORD_EXTERNAL), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  begin(stream_);
  ASSERT_EQ(aclrtStreamWaitEventWithFlag(stream_, in, 0, ACL_EVENT_WAIT_EXTERNAL), ACL_SUCCESS);
  EXPECT_EQ(aclrtStreamWaitEventWithFlag(stream_, out, 1, ACL_EVENT_WAIT_EXTERNAL), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtRecordEventWithFlag(in, stream_, ACL_EVENT_RECORD_EXTERNAL), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEventWithFlag(out, stream_, ACL_EVENT_RECORD_EXTERNAL), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS) << "nothing was recorded outside, so the wait passes";
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(out, 20000), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 1);
  aclrtNotify gate = nullptr;
  ASSERT_EQ(aclrtCreateNotify(&gate, 0), ACL_SUCCESS);
  aclrtStream producer = make_stream();
  ASSERT_EQ(aclrtWaitAndResetNotify(gate, producer, 0), ACL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(in, producer), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(out, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT) << "a new occurrence";
  ASSERT_EQ(aclrtRecordNotify(gate, nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(out, 20000), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 2);
}

}  // namespace
}  // namespace reprise::emulator
