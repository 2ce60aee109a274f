// Several streams in one capture, and events across its border.
#include <atomic>

#include "device/contract/contract.h"

namespace reprise::device::contract {
namespace {

/// What `later` gets from here on follows what `earlier` has so far.
void follow(Stream& earlier, Stream& later, Event& event) {
  earlier.record(event);
  later.wait(event);
}

struct ForkedCapture {
  std::unique_ptr<Stream> origin;
  std::unique_ptr<Stream> side;
  std::unique_ptr<Event> event;
};

/// A capture on one stream that another has joined.
ForkedCapture forked_capture(Device& device) {
  ForkedCapture capture{device.create_stream(), device.create_stream(), device.create_event()};
  capture.origin->begin_capture(CaptureMode::kThreadLocal);
  follow(*capture.origin, *capture.side, *capture.event);
  return capture;
}

TEST_P(DeviceContract, AStreamThatWaitsForACapturedEventJoins) {
  const auto origin = device_->create_stream({.priority = 0, .name = "origin"});
  const auto side = device_->create_stream({.priority = 0, .name = "side"});
  const auto fork = device_->create_event();
  const auto join = device_->create_event();
  const auto a = buffer(1);
  const auto b = buffer(1);
  origin->begin_capture(CaptureMode::kThreadLocal);
  add(*origin, *a, 1);
  follow(*origin, *side, *fork);
  EXPECT_EQ(side->capture_info().status, CaptureStatus::kActive);
  EXPECT_EQ(side->capture_info().graph, origin->capture_info().graph);
  side->copy_async(b->data(), a->data(), a->bytes(), CopyKind::kDeviceToDevice);
  multiply(*origin, *a, 1);
  follow(*side, *origin, *join);
  add(*origin, *b, 10);
  const auto graph = origin->end_capture();
  EXPECT_EQ(side->capture_info().status, CaptureStatus::kNone);
  EXPECT_EQ(graph->statistics().streams, 2);
  EXPECT_EQ(graph->statistics().records, 2);
  EXPECT_EQ(graph->statistics().waits, 2);
  expect_all(*b, 1);
  graph->replay(*origin);
  origin->synchronize();
  expect_all(*a, 2);
  expect_all(*b, 12);
  expect_usable(*side);
}

TEST_P(DeviceContract, StreamsForkFromForkedStreams) {
  const auto origin = device_->create_stream();
  const auto middle = device_->create_stream();
  const auto leaf = device_->create_stream();
  const auto down = device_->create_event();
  const auto up = device_->create_event();
  const auto data = buffer(1);
  origin->begin_capture(CaptureMode::kThreadLocal);
  follow(*origin, *middle, *down);
  add(*middle, *data, 1);
  middle->record(*down);  // a newer record of the same event
  leaf->wait(*down);
  multiply(*leaf, *data, 10);
  follow(*leaf, *middle, *up);
  add(*middle, *data, 5);
  follow(*middle, *origin, *up);
  const auto graph = origin->end_capture();
  graph->replay(*origin);
  origin->synchronize();
  expect_all(*data, 25);
}

TEST_P(DeviceContract, ALeafJoinedTooLateForTheOriginIsADependency) {
  // The origin waited for the middle before the middle waited for the leaf: the leaf's work has no way back.
  const auto origin = device_->create_stream();
  const auto middle = device_->create_stream();
  const auto leaf = device_->create_stream();
  const auto fork = device_->create_event();
  const auto middle_done = device_->create_event();
  const auto leaf_done = device_->create_event();
  const auto data = buffer(0);
  origin->begin_capture(CaptureMode::kThreadLocal);
  follow(*origin, *middle, *fork);
  leaf->wait(*fork);
  add(*leaf, *data, 1);
  follow(*middle, *origin, *middle_done);
  follow(*leaf, *middle, *leaf_done);
  EXPECT_ERROR(ErrorCode::kCaptureDependency, origin->end_capture());
  expect_usable(*origin);
  expect_usable(*middle);
  expect_usable(*leaf);
}

TEST_P(DeviceContract, WaitingForTheOwnRecordIsAllowed) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 1);
  stream->record(*event);
  stream->wait(*event);
  add(*stream, *data, 1);
  const auto graph = stream->end_capture();
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 2);
}

TEST_P(DeviceContract, AnUnjoinedStreamFailsTheCapture) {
  const auto data = buffer(0);
  const auto [origin, side, event] = forked_capture(*device_);
  add(*side, *data, 1);
  EXPECT_ERROR(ErrorCode::kCaptureUnjoined, origin->end_capture());
  EXPECT_EQ(side->capture_info().status, CaptureStatus::kNone);
  expect_usable(*origin);
  expect_usable(*side);
}

TEST_P(DeviceContract, ARecordThatNobodyWaitsForDoesNotJoin) {
  const auto data = buffer(0);
  const auto [origin, side, event] = forked_capture(*device_);
  add(*side, *data, 1);
  side->record(*event);
  EXPECT_ERROR(ErrorCode::kCaptureUnjoined, origin->end_capture());
  expect_usable(*origin);
}

TEST_P(DeviceContract, WorkAfterTheJoiningRecordFailsTheCapture) {
  const auto data = buffer(0);
  const auto [origin, side, event] = forked_capture(*device_);
  follow(*side, *origin, *event);
  add(*side, *data, 1);
  EXPECT_ERROR(ErrorCode::kCaptureUnjoined, origin->end_capture());
  expect_usable(*origin);
  expect_usable(*side);
}

TEST_P(DeviceContract, AWaitThatIsNotJoinedAgainFailsTheCapture) {
  const auto [origin, side, event] = forked_capture(*device_);
  follow(*side, *origin, *event);
  follow(*origin, *side, *event);
  EXPECT_ERROR(ErrorCode::kCaptureDependency, origin->end_capture());
  expect_usable(*origin);
}

TEST_P(DeviceContract, AJoinedStreamCannotEndTheCapture) {
  const auto [origin, side, event] = forked_capture(*device_);
  EXPECT_ERROR(ErrorCode::kCaptureUnmatched, side->end_capture());
  EXPECT_ERROR(ErrorCode::kStreamCapturing, side->begin_capture(CaptureMode::kThreadLocal));
  EXPECT_ERROR(ErrorCode::kStreamCapturing, side->synchronize());
  EXPECT_ERROR(ErrorCode::kStreamCapturing, side->query());
  EXPECT_ERROR(ErrorCode::kStreamCapturing, side->close());
  follow(*side, *origin, *event);
  EXPECT_NE(origin->end_capture(), nullptr);
}

TEST_P(DeviceContract, WorkQueuedBeforeAStreamJoinsIsNotCaptured) {
  const auto origin = device_->create_stream();
  const auto side = device_->create_stream();
  const auto event = device_->create_event();
  const auto data = buffer(0);
  add(*side, *data, 1);
  origin->begin_capture(CaptureMode::kThreadLocal);
  follow(*origin, *side, *event);
  follow(*side, *origin, *event);
  const auto graph = origin->end_capture();
  EXPECT_EQ(graph->statistics().launches, 0);
  side->synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, AnEventRecordedOutsideIsNoPartOfACapture) {
  const auto capturing = device_->create_stream();
  const auto plain = device_->create_stream();
  const auto outside = device_->create_event();
  const auto fresh = device_->create_event();
  plain->record(*outside);
  capturing->begin_capture(CaptureMode::kThreadLocal);
  EXPECT_ERROR(ErrorCode::kCaptureDependency, capturing->wait(*outside));
  // The capture goes on.
  EXPECT_EQ(capturing->capture_info().status, CaptureStatus::kActive);
  capturing->record(*fresh);
  capturing->wait(*fresh);
  EXPECT_NE(capturing->end_capture(), nullptr);
  expect_usable(*capturing);
}

TEST_P(DeviceContract, ANeverRecordedEventAddsNothing) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->wait(*event);
  EXPECT_EQ(stream->end_capture()->statistics().waits, 0);
}

TEST_P(DeviceContract, CapturedEventsCannotBeAskedUntilTheCaptureEnds) {
  const auto stream = device_->create_stream();
  const auto plain = device_->create_stream();
  const auto captured = device_->create_event();
  const auto other = device_->create_event();
  plain->record(*other);
  plain->synchronize();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->record(*captured);
  EXPECT_ERROR(ErrorCode::kEventCaptured, captured->query());
  EXPECT_ERROR(ErrorCode::kEventCaptured, captured->synchronize());
  EXPECT_ERROR(ErrorCode::kEventCaptured, captured->elapsed_ms(*other));
  EXPECT_ERROR(ErrorCode::kEventCaptured, other->elapsed_ms(*captured));
  EXPECT_NE(stream->end_capture(), nullptr);
  // An ordinary event again.
  EXPECT_TRUE(captured->query());
  plain->record(*captured);
  captured->synchronize();
}

TEST_P(DeviceContract, TheDefaultStreamCannotJoin) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event();
  Stream& plain = device_->default_stream();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->record(*event);
  EXPECT_ERROR(ErrorCode::kCaptureImplicit, plain.wait(*event));
  EXPECT_ERROR(ErrorCode::kCaptureImplicit, plain.record(*event));
  EXPECT_EQ(plain.capture_info().status, CaptureStatus::kNone);
  EXPECT_NE(stream->end_capture(), nullptr);
  expect_usable(*stream);
}

TEST_P(DeviceContract, TwoCapturesThatWouldMergeAreBothLost) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream();
  const auto event = device_->create_event();
  first->begin_capture(CaptureMode::kThreadLocal);
  second->begin_capture(CaptureMode::kThreadLocal);
  first->record(*event);
  EXPECT_ERROR(ErrorCode::kCaptureConflict, second->wait(*event));
  EXPECT_EQ(first->capture_info().status, CaptureStatus::kInvalidated);
  EXPECT_EQ(second->capture_info().status, CaptureStatus::kInvalidated);
  const auto third = device_->create_stream();
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, third->wait(*event));
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, first->end_capture());
  EXPECT_ERROR(ErrorCode::kCaptureInvalidated, second->end_capture());
  expect_usable(*first);
  expect_usable(*second);
  expect_usable(*third);
}

TEST_P(DeviceContract, ANewRecordTakesAnEventIntoTheOtherCapture) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream();
  const auto event = device_->create_event();
  first->begin_capture(CaptureMode::kThreadLocal);
  second->begin_capture(CaptureMode::kThreadLocal);
  first->record(*event);
  second->record(*event);
  second->wait(*event);
  EXPECT_NE(first->end_capture(), nullptr);
  EXPECT_NE(second->end_capture(), nullptr);
}

// ---- external events: nodes of a graph, but no part of its forks

TEST_P(DeviceContract, AGraphWaitsForAnExternalRecordAndConsumesIt) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 1);
  stream->wait(*event);
  add(*stream, *data, 10);
  const auto graph = stream->end_capture();
  EXPECT_EQ(graph->statistics().waits, 1);
  for (int i = 1; i <= 3; ++i) {
    graph->replay(*stream);  // returns although the graph cannot end yet
    EXPECT_FALSE(stream->synchronize_for(5));
    expect_all(*data, 11 * i - 10);  // what lies before the wait has run
    other->record(*event);
    stream->synchronize();
    expect_all(*data, 11 * i);
  }
}

TEST_P(DeviceContract, ARecordBeforeTheReplayIsKept) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->wait(*event);
  const auto graph = stream->end_capture();
  other->record(*event);
  other->record(*event);  // a binary semaphore: two records are one
  other->synchronize();
  graph->replay(*stream);
  EXPECT_TRUE(stream->synchronize_for(10000));
  graph->replay(*stream);
  EXPECT_FALSE(stream->synchronize_for(5));
  other->record(*event);
  stream->synchronize();
}

TEST_P(DeviceContract, AGraphReleasesTheOutsideByAnExternalRecord) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  const auto data = buffer(1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  add(*stream, *data, 1);
  stream->record(*event);
  const auto graph = stream->end_capture();
  other->wait(*event);
  multiply(*other, *data, 10);
  EXPECT_FALSE(other->synchronize_for(5));
  graph->replay(*stream);
  other->synchronize();
  expect_all(*data, 20);
}

TEST_P(DeviceContract, ExternalEventsDoNotJoinStreams) {
  const auto capturing = device_->create_stream();
  const auto plain = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  capturing->begin_capture(CaptureMode::kThreadLocal);
  capturing->record(*event);
  capturing->wait(*event);
  plain->wait(*event);
  EXPECT_EQ(plain->capture_info().status, CaptureStatus::kNone);
  device_->default_stream().record(*event);
  plain->synchronize();
  const auto graph = capturing->end_capture();
  EXPECT_EQ(graph->statistics().streams, 1);
  graph->replay(*capturing);
  capturing->synchronize();
}

TEST_P(DeviceContract, OneLaneGoesOnWhileAnotherWaitsOutside) {
  const auto origin = device_->create_stream();
  const auto side = device_->create_stream();
  const auto other = device_->create_stream();
  const auto fork = device_->create_event();
  const auto join = device_->create_event();
  const auto gate = device_->create_event(EventKind::kExternal);
  const auto a = buffer(0);
  const auto b = buffer(0);
  origin->begin_capture(CaptureMode::kThreadLocal);
  follow(*origin, *side, *fork);
  origin->wait(*gate);
  add(*origin, *a, 1);
  add(*side, *b, 1);
  follow(*side, *origin, *join);
  add(*origin, *b, 10);
  const auto graph = origin->end_capture();
  for (int i = 1; i <= 2; ++i) {
    graph->replay(*origin);
    EXPECT_FALSE(origin->synchronize_for(5));
    expect_all(*a, i - 1);
    expect_all(*b, 11 * i - 10);
    other->record(*gate);
    origin->synchronize();
    expect_all(*a, i);
    expect_all(*b, 11 * i);
  }
}

TEST_P(DeviceContract, AnotherThreadReleasesAWaitingGraph) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->wait(*event);
  add(*stream, *data, 1);
  const auto graph = stream->end_capture();
  std::atomic<int> finished = 0;
  std::thread releaser([&] {
    const auto other = device_->create_stream();
    for (int i = 0; i < 20; ++i) {
      while (finished < i) std::this_thread::yield();  // else two records may become one
      other->record(*event);
      other->synchronize();
    }
  });
  for (int i = 0; i < 20; ++i) {
    graph->replay(*stream);
    stream->synchronize();
    ++finished;
  }
  releaser.join();
  expect_all(*data, 20);
}

}  // namespace
}  // namespace reprise::device::contract
