// Begin and end of a capture, what it records, what it forbids.
#include "device/contract/contract.h"

namespace reprise::device::contract {
namespace {

TEST_P(DeviceContract, CaptureStatusFollowsBeginAndEnd) {
  const auto stream = device_->create_stream();
  EXPECT_EQ(stream->capture_info().status, CaptureStatus::kNone);
  EXPECT_EQ(stream->capture_info().graph, nullptr);
  stream->begin_capture(CaptureMode::kGlobal);
  const CaptureInfo info = stream->capture_info();
  EXPECT_EQ(info.status, CaptureStatus::kActive);
  EXPECT_NE(info.graph, nullptr);
  const auto graph = stream->end_capture();
  EXPECT_EQ(graph.get(), info.graph);
  EXPECT_EQ(stream->capture_info().status, CaptureStatus::kNone);
  EXPECT_EQ(stream->capture_info().graph, nullptr);
}

TEST_P(DeviceContract, AnEmptyCaptureReplays) {
  const auto stream = device_->create_stream();
  stream->begin_capture(CaptureMode::kGlobal);
  const auto graph = stream->end_capture();
  EXPECT_EQ(graph->statistics().launches, 0);
  graph->replay(*stream);
  stream->synchronize();
}

TEST_P(DeviceContract, ASecondBeginFailsAndTheFirstCaptureGoesOn) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 1);
  EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->begin_capture(CaptureMode::kThreadLocal));
  add(*stream, *data, 2);
  const auto graph = stream->end_capture();
  EXPECT_EQ(graph->statistics().launches, 2);
  EXPECT_ERROR(ErrorCode::kStreamNotCapturing, stream->end_capture());
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 3);
}

TEST_P(DeviceContract, TheDefaultStreamCannotCaptureAndStaysUsable) {
  Stream& stream = device_->default_stream();
  EXPECT_ERROR(ErrorCode::kCaptureImplicit, stream.begin_capture(CaptureMode::kRelaxed));
  EXPECT_EQ(stream.capture_info().status, CaptureStatus::kNone);
  const auto data = buffer(0);
  add(stream, *data, 1);
  stream.synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, EndWithoutBeginFails) {
  const auto stream = device_->create_stream();
  EXPECT_ERROR(ErrorCode::kStreamNotCapturing, stream->end_capture());
  expect_usable(*stream);
}

TEST_P(DeviceContract, OnlyTheBeginningThreadEndsAStrictCapture) {
  for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal}) {
    const auto stream = device_->create_stream();
    stream->begin_capture(mode);
    on_other_thread([&] { EXPECT_ERROR(ErrorCode::kCaptureWrongThread, stream->end_capture()); });
    // The capture is lost and the stream is an ordinary one again.
    EXPECT_EQ(stream->capture_info().status, CaptureStatus::kNone);
    expect_usable(*stream);
  }
}

TEST_P(DeviceContract, AnyThreadEndsARelaxedCapture) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kRelaxed);
  add(*stream, *data, 1);
  std::unique_ptr<CapturedGraph> graph;
  on_other_thread([&] { graph = stream->end_capture(); });
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, OneThreadHoldsSeveralCaptures) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream();
  const auto a = buffer(0);
  const auto b = buffer(0);
  first->begin_capture(CaptureMode::kThreadLocal);
  second->begin_capture(CaptureMode::kGlobal);
  EXPECT_NE(first->capture_info().graph, second->capture_info().graph);
  add(*first, *a, 1);
  add(*second, *b, 2);
  const auto first_graph = first->end_capture();
  const auto second_graph = second->end_capture();
  first_graph->replay(*first);
  second_graph->replay(*first);
  first->synchronize();
  expect_all(*a, 1);
  expect_all(*b, 2);
}

TEST_P(DeviceContract, ALaunchIsRecordedAndNotRun) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  const auto graph = capture_add(*stream, *data, 1);
  stream->synchronize();
  expect_all(*data, 0);
  EXPECT_EQ(graph->statistics().launches, 1);
  EXPECT_EQ(graph->statistics().streams, 1);
}

TEST_P(DeviceContract, WorkQueuedBeforeTheCaptureIsNotPartOfIt) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  add(*stream, *data, 1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 10);
  const auto graph = stream->end_capture();
  stream->synchronize();
  expect_all(*data, 1);
  EXPECT_EQ(graph->statistics().launches, 1);
}

TEST_P(DeviceContract, CopiesFillsAndHostFunctionsRunAtEachReplay) {
  const auto stream = device_->create_stream();
  const auto pinned = device_->allocate(kCount * sizeof(int32_t), MemoryKind::kPinnedHost);
  auto* host = static_cast<int32_t*>(pinned->data());
  const auto data = buffer(0);
  const auto other = buffer(5);
  int calls = 0;
  stream->begin_capture(CaptureMode::kGlobal);
  stream->copy_async(data->data(), host, data->bytes(), CopyKind::kHostToDevice);
  stream->copy_async(other->data(), data->data(), data->bytes(), CopyKind::kDeviceToDevice);
  stream->fill_async(data->data(), 0, data->bytes());
  stream->host_function([](void* count) { ++*static_cast<int*>(count); }, &calls);
  const auto graph = stream->end_capture();
  const GraphStatistics statistics = graph->statistics();
  EXPECT_EQ(statistics.copies, 2);
  EXPECT_EQ(statistics.fills, 1);
  EXPECT_EQ(statistics.host_functions, 1);
  EXPECT_EQ(calls, 0);
  expect_all(*other, 5);
  // The host's memory is read anew by each replay.
  for (const int32_t value : {7, 8}) {
    std::fill(host, host + kCount, value);
    graph->replay(*stream);
    stream->synchronize();
    expect_all(*other, value);
    expect_all(*data, 0);
  }
  EXPECT_EQ(calls, 2);
}

TEST_P(DeviceContract, AReplayReadsWhatMemoryHoldsThen) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  const auto graph = capture_add(*stream, *data, 1);
  write(*data, std::vector<int32_t>(kCount, 40));
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 41);
}

TEST_P(DeviceContract, ReplaysFollowOneAnotherWithoutSynchronize) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  const auto graph = capture_add(*stream, *data, 1);
  for (int i = 0; i < 20; ++i) graph->replay(*stream);
  multiply(*stream, *data, 2);
  stream->synchronize();
  expect_all(*data, 40);
}

TEST_P(DeviceContract, ReplaysOnSeveralStreamsFollowOneAnother) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream();
  const auto data = buffer(0);
  const auto graph = capture_add(*first, *data, 1);
  for (int i = 0; i < 10; ++i) {
    graph->replay(*first);
    graph->replay(*second);
    graph->replay(device_->default_stream());
  }
  device_->synchronize();
  expect_all(*data, 30);
}

TEST_P(DeviceContract, AReplayMovesOnlyItsOwnCounter) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  const DeviceCounters start = device_->counters();
  const auto graph = capture_add(*stream, *data, 1);
  const DeviceCounters captured = device_->counters();
  EXPECT_EQ(captured.launches, start.launches + 1);
  EXPECT_EQ(captured.captures, start.captures + 1);
  graph->replay(*stream);
  stream->synchronize();
  const DeviceCounters replayed = device_->counters();
  EXPECT_EQ(replayed.replays, captured.replays + 1);
  EXPECT_EQ(replayed.launches, captured.launches);
  EXPECT_EQ(replayed.captures, captured.captures);
  EXPECT_EQ(replayed.allocations, captured.allocations);
  EXPECT_EQ(replayed.task_updates, captured.task_updates);
}

TEST_P(DeviceContract, ACaptureOf2048LaunchesReplays) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  for (int i = 0; i < 2048; ++i) add(*stream, *data, 1);
  const auto graph = stream->end_capture();
  EXPECT_EQ(graph->statistics().launches, 2048);
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 2048);
}

TEST_P(DeviceContract, ACoreLimitIsFrozenIntoTheGraph) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->set_core_limit({1, 1});
  const auto limited = capture_add(*stream, *data, 1);
  stream->set_core_limit({});
  const auto free = capture_add(*stream, *data, 1);
  EXPECT_NE(limited->hash(true), free->hash(true));
  limited->replay(*stream);
  free->replay(*stream);
  stream->synchronize();
  expect_all(*data, 2);
}

// ---- calls that a capture rejects, in every mode, and survives

TEST_P(DeviceContract, AStreamThatCapturesCannotBeWaitedFor) {
  for (const CaptureMode mode : kAllModes) {
    const auto stream = device_->create_stream();
    stream->begin_capture(mode);
    EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->synchronize());
    EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->synchronize_for(1));
    EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->query());
    EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->close());
    EXPECT_ERROR(ErrorCode::kStreamCapturing, device_->synchronize());
    EXPECT_EQ(stream->capture_info().status, CaptureStatus::kActive);
    stream->end_capture();
    expect_usable(*stream);
  }
}

TEST_P(DeviceContract, AReplayCannotBeCaptured) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  const auto graph = capture_add(*stream, *data, 1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  EXPECT_ERROR(ErrorCode::kStreamCapturing, graph->replay(*stream));
  stream->end_capture();
  expect_usable(*stream);
}

TEST_P(DeviceContract, AGraphInCaptureCanBeReadButNotReplayedOrClosed) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 1);
  // The interface hands the graph out as const until the capture ends.
  auto* graph = const_cast<CapturedGraph*>(stream->capture_info().graph);
  EXPECT_NE(graph->to_text(), "");
  EXPECT_EQ(graph->statistics().launches, 1);
  EXPECT_ERROR(ErrorCode::kGraphCapturing, graph->replay(*other));
  EXPECT_ERROR(ErrorCode::kGraphCapturing, graph->close());
  const auto ended = stream->end_capture();
  ended->replay(*other);
  other->synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, PageableHostMemoryCannotBeCaptured) {
  for (const CaptureMode mode : kAllModes) {
    const auto stream = device_->create_stream();
    const auto data = buffer(3);
    std::vector<int32_t> host(kCount, 1);
    stream->begin_capture(mode);
    EXPECT_ERROR(ErrorCode::kPageableMemory,
                 stream->copy_async(data->data(), host.data(), data->bytes(), CopyKind::kHostToDevice));
    EXPECT_ERROR(ErrorCode::kPageableMemory,
                 stream->copy_async(host.data(), data->data(), data->bytes(), CopyKind::kDeviceToHost));
    EXPECT_EQ(stream->end_capture()->statistics().copies, 0);
    expect_usable(*stream);
  }
}

TEST_P(DeviceContract, MemoryStreamsAndEventsCanBeMadeDuringCapture) {
  const auto stream = device_->create_stream();
  stream->begin_capture(CaptureMode::kGlobal);
  const auto data = device_->allocate(kCount * sizeof(int32_t));
  const auto pinned = device_->allocate(64, MemoryKind::kPinnedHost);
  const auto side = device_->create_stream();
  const auto event = device_->create_event();
  stream->fill_async(data->data(), 0, data->bytes());
  stream->record(*event);
  side->wait(*event);
  add(*side, *data, 2);
  side->record(*event);
  stream->wait(*event);
  const auto graph = stream->end_capture();
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 2);
}

TEST_P(DeviceContract, OtherStreamsWorkDuringACapture) {
  const auto capturing = device_->create_stream();
  const auto other = device_->create_stream();
  const auto data = buffer(0);
  capturing->begin_capture(CaptureMode::kGlobal);
  add(*other, *data, 1);
  other->synchronize();
  EXPECT_TRUE(other->query());
  capturing->end_capture();
  expect_all(*data, 1);
}

// ---- the life of a graph and of a stream

TEST_P(DeviceContract, AGraphOutlivesItsStream) {
  const auto data = buffer(0);
  std::unique_ptr<CapturedGraph> graph;
  {
    const auto stream = device_->create_stream();
    graph = capture_add(*stream, *data, 1);
  }
  const auto stream = device_->create_stream();
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, DestroyCallbacksRunInOrderWhenTheGraphEnds) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  std::string log;
  auto graph = capture_add(*stream, *data, 1);
  graph->add_destroy_callback([](void* text) { static_cast<std::string*>(text)->push_back('a'); }, &log);
  graph->add_destroy_callback([](void* text) { static_cast<std::string*>(text)->push_back('b'); }, &log);
  graph->replay(*stream);
  EXPECT_EQ(log, "");
  graph.reset();
  EXPECT_EQ(log, "ab");
  // The graph went after its replay.
  expect_all(*data, 1);
}

TEST_P(DeviceContract, AClosedGraphCannotBeReplayed) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  std::string log;
  const auto graph = capture_add(*stream, *data, 1);
  graph->add_destroy_callback([](void* text) { static_cast<std::string*>(text)->push_back('a'); }, &log);
  graph->close();
  graph->close();
  EXPECT_EQ(log, "a");
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, graph->replay(*stream));
  expect_usable(*stream);
}

TEST_P(DeviceContract, ARunningGraphCannotBeClosed) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto data = buffer(0);
  const auto event = device_->create_event(EventKind::kExternal);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->wait(*event);
  add(*stream, *data, 1);
  const auto graph = stream->end_capture();
  graph->replay(*stream);
  EXPECT_ERROR(ErrorCode::kGraphRunning, graph->close(20));
  other->record(*event);
  graph->close();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, DestroyingACapturingStreamEndsItsCapture) {
  const auto plain = device_->create_stream();
  {
    const auto stream = device_->create_stream();
    stream->begin_capture(CaptureMode::kGlobal);
  }
  device_->synchronize();
  expect_usable(*plain);
}

TEST_P(DeviceContract, DestroyingAJoinedStreamInvalidatesTheCapture) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->record(*event);
  {
    const auto side = device_->create_stream();
    side->wait(*event);
  }
  EXPECT_EQ(stream->capture_info().status, CaptureStatus::kInvalidated);
  EXPECT_NE(stream->capture_info().graph, nullptr);
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, add(*stream, *data, 1));
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, stream->begin_task_group());
  EXPECT_ERROR(ErrorCode::kStreamCapturing, stream->begin_capture(CaptureMode::kThreadLocal));
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, stream->end_capture());
  expect_usable(*stream);
}

TEST_P(DeviceContract, EqualCapturesHashEqualWithoutAddresses) {
  const auto stream = device_->create_stream();
  const auto a = buffer(0);
  const auto b = buffer(0);
  const auto first = capture_add(*stream, *a, 1);
  const auto again = capture_add(*stream, *a, 1);
  const auto elsewhere = capture_add(*stream, *b, 1);
  const auto different = capture_add(*stream, *a, 2);
  EXPECT_EQ(first->hash(true), again->hash(true));
  EXPECT_NE(first->hash(true), elsewhere->hash(true));
  EXPECT_EQ(first->hash(false), elsewhere->hash(false));
  EXPECT_NE(first->hash(false), different->hash(false));
}

}  // namespace
}  // namespace reprise::device::contract
