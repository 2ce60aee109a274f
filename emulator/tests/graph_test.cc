// Captured graphs: replays, task groups, changes of single tasks, conditions, resources.
#include <fstream>
#include <nlohmann/json.hpp>

#include "emulator/tests/graph_support.h"

namespace reprise::emulator {
namespace {

using Replaying = GraphTest;
using TaskGroups = GraphTest;
using GraphTasks = GraphTest;
using Conditions = GraphTest;
using GraphResources = GraphTest;

TEST_F(Replaying, ReadsMemoryAsItIsThenAndCopiesPinnedMemoryAnew) {
  int32_t* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(reinterpret_cast<void**>(&pinned), 64), ACL_SUCCESS);
  begin(stream_);
  ASSERT_EQ(aclrtMemcpyAsync(number_, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 2, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpyAsync(pinned + 1, 4, number_, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, [](void* it) { ++*static_cast<int32_t*>(it); }, pinned + 1), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  for (int32_t value : {10, 20}) {
    *pinned = value;
    ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
    EXPECT_EQ(pinned[1], 2 * value + 2);
  }
  EXPECT_EQ(aclrtFreeHost(pinned), ACL_SUCCESS);
}

TEST_F(Replaying, ReturnsBeforeAWaitInsideIsOver) {
  void* word = make_word();
  aclrtStream updates = make_stream();
  begin(stream_);
  ASSERT_EQ(aclrtValueWait(word, 1, ACL_VALUE_WAIT_EQ, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWrite(word, 0, 0, stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    ASSERT_EQ(aclrtValueWrite(word, 1, 0, updates), ACL_SUCCESS);
    ASSERT_EQ(sync(stream_), ACL_SUCCESS);
    EXPECT_EQ(read(number_), i);
  }
}

TEST_F(Replaying, ARunningGraphIsNotDestroyed) {
  restart_with("REPRISE_ACL_PROFILE", "910B3,destroy_timeout_ms=30");
  void* word = make_word();
  begin(stream_);
  ASSERT_EQ(aclrtValueWait(word, 1, ACL_VALUE_WAIT_EQ, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_ERROR_RT_MODEL_RUNNING);
  EXPECT_EQ(aclmdlRIUpdate(graph), ACL_ERROR_RT_MODEL_UPDATE_FAILED);
  ASSERT_EQ(aclrtValueWrite(word, 1, 0, nullptr), ACL_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
}

TEST_F(Replaying, OfFreedMemoryIsAFaultOfTheDevice) {
  begin(stream_);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  ASSERT_EQ(aclrtFree(number_), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  EXPECT_EQ(sync(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(TaskGroups, UpdatesReplaceArgumentsInBothOrders) {
  void* word = make_word();
  aclrtStream updates = make_stream();
  begin(stream_);
  ASSERT_EQ(aclrtValueWait(word, 1, ACL_VALUE_WAIT_EQ, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWrite(word, 0, 0, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  ASSERT_EQ(launch(kAffine, number_, 0, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffineCube, number_ + 1, 0, 1, stream_), ACL_SUCCESS);
  aclrtTaskGrp group = nullptr;
  ASSERT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  const auto update = [&](int32_t value) {
    ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(updates, group), ACL_SUCCESS);
    ASSERT_EQ(launch(kAffine, number_, 0, value, updates), ACL_SUCCESS);
    ASSERT_EQ(launch(kAffineCube, number_ + 1, 0, 10 * value, updates), ACL_SUCCESS);
    ASSERT_EQ(aclmdlRICaptureTaskUpdateEnd(updates), ACL_SUCCESS);
    ASSERT_EQ(aclrtValueWrite(word, 1, 0, updates), ACL_SUCCESS);
  };
  for (int32_t value = 2; value < 12; ++value) {
    const bool update_first = value % 2 == 0;
    if (update_first) {
      update(value);
      ASSERT_EQ(sync(updates), ACL_SUCCESS);
    }
    ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
    if (!update_first) update(value);
    ASSERT_EQ(sync(stream_), ACL_SUCCESS);
    EXPECT_EQ(read(number_), value);
    EXPECT_EQ(read(number_ + 1), 10 * value);
  }
}

TEST_F(TaskGroups, HoldKernelsOfOneStreamOnly) {
  aclrtTaskGrp group = nullptr;
  EXPECT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemsetAsync(number_, 4, 0, 4, stream_), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  EXPECT_EQ(group, nullptr);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(launch(kAffineCpu, number_, 1, 1, stream_), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  aclrtStream side = make_stream();
  aclrtEvent fork = make_event();
  aclrtEvent join = make_event();
  ASSERT_EQ(aclrtRecordEvent(fork, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(side, fork), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(launch(kAffine, number_, 1, 1, side), ACL_ERROR_STREAM_TASK_GROUP_INTR);
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_ERROR_STREAM_TASK_GROUP_INTR);
  ASSERT_EQ(aclrtRecordEvent(join, side), ACL_SUCCESS);
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, join), ACL_SUCCESS);
  end(stream_);
  begin(stream_);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(end_code(stream_), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
}

TEST_F(TaskGroups, UpdatesMustMatchWhatWasRecorded) {
  begin(stream_);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 0, 1, stream_), ACL_SUCCESS);
  aclrtTaskGrp group = nullptr;
  ASSERT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(stream_), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream_, nullptr), ACL_ERROR_INVALID_PARAM);
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(stream_, group), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream_, group), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  EXPECT_EQ(aclrtMemsetAsync(number_, 4, 0, 4, stream_), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  EXPECT_EQ(launch(kAffineCube, number_, 0, 2, stream_), ACL_ERROR_RT_INTERNAL_ERROR);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(stream_), ACL_ERROR_RT_INTERNAL_ERROR) << "one kernel is missing";
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(stream_, group), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 0, 2, stream_), ACL_SUCCESS);
  EXPECT_EQ(launch(kAffine, number_, 0, 2, stream_), ACL_ERROR_RT_INTERNAL_ERROR) << "one kernel too many";
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(stream_), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream_, group), ACL_ERROR_RT_PARAM_INVALID) << "it ended with its graph";
}

TEST_F(GraphTasks, AreListedChangedAndDisabled) {
  begin(stream_);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_ + 1, 1, 1, stream_), ACL_SUCCESS);
  ASSERT_EQ(aclrtValueWrite(number_ + 2, 9, 0, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  uint32_t count = 0;
  ASSERT_EQ(aclmdlRIGetStreams(graph, nullptr, &count), ACL_SUCCESS);
  ASSERT_EQ(count, 1u);
  aclrtStream inner = nullptr;
  ASSERT_EQ(aclmdlRIGetStreams(graph, &inner, &count), ACL_SUCCESS);
  aclmdlRITask tasks[3] = {};
  count = 2;
  EXPECT_EQ(aclmdlRIGetTasksByStream(inner, tasks, &count), ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY);
  count = 3;
  ASSERT_EQ(aclmdlRIGetTasksByStream(inner, tasks, &count), ACL_SUCCESS);
  aclmdlRITaskType type = ACL_MODEL_RI_TASK_DEFAULT;
  ASSERT_EQ(aclmdlRITaskGetType(tasks[2], &type), ACL_SUCCESS);
  EXPECT_EQ(type, ACL_MODEL_RI_TASK_VALUE_WRITE);
  aclmdlRITaskParams params;
  ASSERT_EQ(aclmdlRITaskGetParams(tasks[0], &params), ACL_SUCCESS);
  AffineArguments arguments = *static_cast<AffineArguments*>(params.kernelTaskParams.args);
  arguments.addend = 100;
  params.kernelTaskParams.args = &arguments;
  ASSERT_EQ(aclmdlRITaskSetParams(tasks[0], &params), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRITaskSetParams(tasks[2], &params), ACL_ERROR_RT_PARAM_INVALID) << "of another type";
  ASSERT_EQ(aclmdlRITaskDisable(tasks[1]), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 1) << "changes wait for the update";
  ASSERT_EQ(aclmdlRIUpdate(graph), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 101);
  EXPECT_EQ(read(number_ + 1), 1);
  EXPECT_EQ(read(number_ + 2), 9);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  EXPECT_EQ(aclmdlRITaskDisable(tasks[1]), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(GraphTasks, AreWrittenAsJson) {
  begin(stream_);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  const std::string path = testing::TempDir() + "emulator_graph.json";
  ASSERT_EQ(aclmdlRIDebugJsonPrint(graph, path.c_str(), ACL_MODEL_RI_JSON_VERBOSE), ACL_SUCCESS);
  std::ifstream file(path);
  const nlohmann::json events = nlohmann::json::parse(file);
  EXPECT_EQ(events.at(1).at("name"), "Affine");
  EXPECT_EQ(aclmdlRIDebugJsonPrint(graph, "/nowhere/at/all.json", 0), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Conditions, RunTheGraphThatTheWordSays) {
  aclrtStream body_stream = make_stream();
  begin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureGetInfo(stream_, nullptr, &graph), ACL_SUCCESS);
  aclmdlRICondHandle condition = nullptr;
  ASSERT_EQ(aclmdlRICondHandleCreate(graph, 2, ACL_MODEL_RI_COND_ASSIGN_DEFAULT, &condition), ACL_SUCCESS);
  uint64_t* word = nullptr;
  ASSERT_EQ(aclmdlRICondHandleGetCondPtr(condition, &word), ACL_SUCCESS);
  aclmdlRI body = nullptr;
  EXPECT_EQ(aclmdlRIAddCondTask({condition, ACL_MODEL_RI_COND_WHILE, 2, &body}, stream_, 0),
            ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclmdlRIAddCondTask({condition, ACL_MODEL_RI_COND_WHILE, 1, &body}, stream_, 0), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureToModelRIBegin(body_stream, body, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), ACL_SUCCESS);
  ASSERT_EQ(launch(kAffine, number_, 1, 1, body_stream), ACL_SUCCESS);
  // One less: the word is a number of 64 bits, of which the lower half changes.
  ASSERT_EQ(launch(kAffine, reinterpret_cast<int32_t*>(word), 1, -1, body_stream), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureEnd(body_stream, nullptr), ACL_SUCCESS);
  aclmdlRI ended = end(stream_);
  for (int i = 1; i <= 2; ++i) {
    ASSERT_EQ(aclmdlRIExecute(ended, 20000), ACL_SUCCESS);
    EXPECT_EQ(read(number_), 2 * i);
  }
  EXPECT_EQ(aclmdlRIDestroy(ended), ACL_SUCCESS);
}

TEST_F(GraphResources, HardwareQueuesHoldStreamsUntilTheGraphIsDestroyed) {
  restart_with("REPRISE_ACL_PROFILE", "910B3,software_sq=0,streams=4,queue_depth=40,queue_reserve=8");
  uint32_t free = 0;
  ASSERT_EQ(aclrtGetStreamAvailableNum(&free), ACL_SUCCESS);
  ASSERT_EQ(free, 2u);
  begin(stream_);
  // The queue holds 32 tasks; the 33rd takes a second stream and the 65th finds none.
  for (int i = 0; i < 64; ++i) ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS) << i;
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  EXPECT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
  aclrtTaskGrp group = nullptr;
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end_code(stream_), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  begin(stream_);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  aclmdlRI graph = end(stream_);
  EXPECT_EQ(aclmdlRICaptureBegin(stream_, kThreadLocal), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  EXPECT_EQ(status_of(stream_), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  ASSERT_EQ(aclmdlRIExecute(graph, 20000), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 40);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  begin(stream_);
  end(stream_);
}

TEST_F(GraphResources, SoftwareQueuesAreNeededWhileAGraphRuns) {
  restart_with("REPRISE_ACL_PROFILE", "910B3,software_queues=2,queue_depth=20,queue_reserve=4,notifies=2");
  aclmdlRI graphs[2];
  for (aclmdlRI& graph : graphs) {
    begin(stream_);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
    graph = end(stream_);
  }
  for (int round = 0; round < 2; ++round) {
    for (aclmdlRI graph : graphs) ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  }
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  EXPECT_EQ(read(number_), 80);
  begin(stream_);
  EXPECT_EQ(end_code(stream_), ACL_ERROR_RT_NO_NOTIFY_RESOURCE);
  ASSERT_EQ(aclmdlRIDestroy(graphs[0]), ACL_SUCCESS);
  begin(stream_);
  for (int i = 0; i < 33; ++i) ASSERT_EQ(launch(kAffine, number_, 1, 1, stream_), ACL_SUCCESS);
  aclmdlRI large = end(stream_);
  EXPECT_EQ(aclmdlRIExecuteAsync(large, stream_), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
}

}  // namespace
}  // namespace reprise::emulator
