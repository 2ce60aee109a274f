// Task groups, and updates in both orders.
#include <numeric>

#include "device/contract/contract.h"

namespace reprise::device::contract {
namespace {

std::vector<int32_t> list_of(size_t count, int32_t first) {
  std::vector<int32_t> list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

TEST_P(DeviceContract, UpdateThenReplay) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0, 8);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->fill_async(data->data(), 0, data->bytes());
  stream->begin_task_group();
  kernels_->store_list(*stream, data->data(), list_of(3, 1));
  TaskGroup* group = stream->end_task_group();
  add(*stream, *data, 100);
  const auto graph = stream->end_capture();
  EXPECT_EQ(group->launches(), 1);
  EXPECT_EQ(graph->statistics().task_groups, 1);
  graph->replay(*stream);
  stream->synchronize();
  EXPECT_EQ(read(*data), (std::vector<int32_t>{101, 102, 103, 100, 100, 100, 100, 100}));
  // More entries, fewer, none: arguments, their length and the number of tiles change.
  for (const size_t count : {5, 8, 1, 0, 2}) {
    stream->begin_task_update(*group);
    kernels_->store_list(*stream, data->data(), list_of(count, 7));
    stream->end_task_update();
    graph->replay(*stream);
    stream->synchronize();
    std::vector<int32_t> expected(8, 100);
    for (size_t i = 0; i < count; ++i) expected[i] = 107 + static_cast<int32_t>(i);
    EXPECT_EQ(read(*data), expected);
  }
}

TEST_P(DeviceContract, AnUpdateMayNeedFarMoreRoomThanTheCapture) {
  const auto stream = device_->create_stream();
  constexpr size_t kMany = 20000;
  const auto data = buffer(0, kMany);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  kernels_->store_list(*stream, data->data(), list_of(1, 0));
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  for (const size_t count : {kMany / 2, kMany}) {
    const std::vector<int32_t> list = list_of(count, 3);
    stream->begin_task_update(*group);
    kernels_->store_list(*stream, data->data(), list);
    stream->end_task_update();
    graph->replay(*stream);
    stream->synchronize();
    std::vector<int32_t> got = read(*data);
    got.resize(count);
    EXPECT_EQ(got, list);
  }
}

TEST_P(DeviceContract, ReplayThenUpdatesThatReleaseTheGraph) {
  // Two layers, each waiting for its own update: the order that attention needs on devices where updates follow the
  // launch.
  const auto stream = device_->create_stream();
  const auto updates = device_->create_stream();
  const auto data = buffer(0, 4);
  constexpr int kLayers = 2;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<TaskGroup*> groups;
  const auto sum = buffer(0, 4);
  stream->begin_capture(CaptureMode::kThreadLocal);
  for (int layer = 0; layer < kLayers; ++layer) {
    events.push_back(device_->create_event(EventKind::kExternal));
    multiply(*stream, *data, 2);
    stream->wait(*events.back());
    stream->begin_task_group();
    kernels_->store_list(*stream, data->data(), list_of(2, layer));
    groups.push_back(stream->end_task_group());
  }
  const auto graph = stream->end_capture();
  for (int step = 0; step < 4; ++step) {
    write(*data, {1, 1, 1, 1});
    graph->replay(*stream);
    for (int layer = 0; layer < kLayers; ++layer) {
      updates->begin_task_update(*groups[static_cast<size_t>(layer)]);
      kernels_->store_list(*updates, data->data(), list_of(static_cast<size_t>(1 + layer), 10 * step));
      updates->end_task_update();
      updates->record(*events[static_cast<size_t>(layer)]);
    }
    stream->synchronize();
    // Layer 0 stores [s], doubled by layer 1, which stores [s, s + 1] over it.
    EXPECT_EQ(read(*data), (std::vector<int32_t>{10 * step, 10 * step + 1, 4, 4}));
  }
}

TEST_P(DeviceContract, AnUpdateTakesEffectInTheOrderOfItsStream) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0, 1);
  const auto total = buffer(0, 1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  kernels_->add(*stream, data->data(), 1, 1);
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  // All of it is queued before any of it need run.
  graph->replay(*stream);
  stream->begin_task_update(*group);
  kernels_->add(*stream, data->data(), 1, 10);
  stream->end_task_update();
  graph->replay(*stream);
  stream->begin_task_update(*group);
  kernels_->add(*stream, data->data(), 1, 100);
  stream->end_task_update();
  graph->replay(*stream);
  graph->replay(*stream);
  stream->synchronize();
  EXPECT_EQ(read(*data), std::vector<int32_t>{211});
  EXPECT_EQ(device_->counters().task_updates, 2);
}

TEST_P(DeviceContract, AnUpdateOnAnotherStreamIsOrderedByAnEvent) {
  const auto stream = device_->create_stream();
  const auto updates = device_->create_stream();
  const auto updated = device_->create_event();
  const auto data = buffer(0, 1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  kernels_->add(*stream, data->data(), 1, 1);
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  updates->begin_task_update(*group);
  kernels_->add(*updates, data->data(), 1, 10);
  updates->end_task_update();
  updates->record(*updated);
  stream->wait(*updated);
  graph->replay(*stream);
  stream->synchronize();
  EXPECT_EQ(read(*data), std::vector<int32_t>{10});
}

TEST_P(DeviceContract, AnUpdateMayChangeAddresses) {
  const auto stream = device_->create_stream();
  const auto a = buffer(0);
  const auto b = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  add(*stream, *a, 1);
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  stream->begin_task_update(*group);
  add(*stream, *b, 2);
  stream->end_task_update();
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*a, 0);
  expect_all(*b, 2);
}

TEST_P(DeviceContract, GroupsOfSeveralLaunchesAreUpdatedOneByOne) {
  const auto stream = device_->create_stream();
  const auto data = buffer(1);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  for (int i = 0; i < 10; ++i) add(*stream, *data, 1);
  multiply(*stream, *data, 2);
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  EXPECT_EQ(group->launches(), 11);
  stream->begin_task_update(*group);
  for (int i = 0; i < 10; ++i) add(*stream, *data, i);
  multiply(*stream, *data, 3);
  stream->end_task_update();
  graph->replay(*stream);
  stream->synchronize();
  expect_all(*data, 138);
}

TEST_P(DeviceContract, AnEmptyGroupTakesAnEmptyUpdate) {
  const auto stream = device_->create_stream();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  EXPECT_EQ(group->launches(), 0);
  stream->begin_task_update(*group);
  stream->end_task_update();
  graph->replay(*stream);
  stream->synchronize();
}

TEST_P(DeviceContract, TaskGroupsBelongToCaptures) {
  const auto stream = device_->create_stream();
  EXPECT_ERROR(ErrorCode::kStreamNotCapturing, stream->begin_task_group());
  EXPECT_ERROR(ErrorCode::kStreamNotCapturing, stream->end_task_group());
  expect_usable(*stream);
}

TEST_P(DeviceContract, TaskGroupsDoNotNest) {
  const auto stream = device_->create_stream();
  stream->begin_capture(CaptureMode::kThreadLocal);
  EXPECT_ERROR(ErrorCode::kTaskGroupState, stream->end_task_group());
  stream->begin_task_group();
  EXPECT_ERROR(ErrorCode::kTaskGroupState, stream->begin_task_group());
  EXPECT_NE(stream->end_task_group(), nullptr);
  EXPECT_ERROR(ErrorCode::kTaskGroupState, stream->end_task_group());
  EXPECT_NE(stream->end_capture(), nullptr);
}

TEST_P(DeviceContract, ACaptureCannotEndInsideATaskGroup) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  add(*stream, *data, 1);
  EXPECT_ERROR(ErrorCode::kTaskGroupState, stream->end_capture());
  EXPECT_EQ(stream->capture_info().status, CaptureStatus::kNone);
  expect_usable(*stream);
}

TEST_P(DeviceContract, ATaskGroupHoldsLaunchesOnly) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event();
  const auto external = device_->create_event(EventKind::kExternal);
  const auto data = buffer(0);
  const std::function<void()> operations[] = {
      [&] { stream->fill_async(data->data(), 0, data->bytes()); },
      [&] { stream->copy_async(data->data(), data->data(), 4, CopyKind::kDeviceToDevice); },
      [&] { stream->host_function([](void*) {}, nullptr); },
      [&] { stream->record(*event); },
      [&] { stream->record(*external); },
      [&] { stream->wait(*external); },
  };
  for (const auto& operation : operations) {
    stream->begin_capture(CaptureMode::kThreadLocal);
    stream->begin_task_group();
    add(*stream, *data, 1);
    EXPECT_ERROR(ErrorCode::kTaskGroupOperation, operation());
    EXPECT_ERROR(ErrorCode::kTaskGroupOperation, stream->end_task_group());  // says it again
    // Only the group is lost.
    EXPECT_EQ(stream->capture_info().status, CaptureStatus::kActive);
    const auto graph = stream->end_capture();
    EXPECT_EQ(graph->statistics().task_groups, 0);
    EXPECT_EQ(graph->statistics().launches, 1);
  }
  expect_usable(*stream);
}

TEST_P(DeviceContract, ATaskGroupHoldsLaunchesOfOneStream) {
  const auto stream = device_->create_stream();
  const auto side = device_->create_stream();
  const auto event = device_->create_event();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->record(*event);
  side->wait(*event);
  stream->begin_task_group();
  add(*stream, *data, 1);
  EXPECT_ERROR(ErrorCode::kTaskGroupOperation, add(*side, *data, 1));
  EXPECT_ERROR(ErrorCode::kTaskGroupState, side->end_task_group());
  EXPECT_ERROR(ErrorCode::kTaskGroupOperation, stream->end_task_group());
  side->record(*event);
  stream->wait(*event);
  EXPECT_NE(stream->end_capture(), nullptr);
}

/// A graph with one group of two launches, and a stream to update it on.
class UpdateFixture {
 public:
  UpdateFixture(Device& device, const std::function<void(Stream&)>& launches)
      : stream(device.create_stream()), other(device.create_stream()) {
    stream->begin_capture(CaptureMode::kThreadLocal);
    stream->begin_task_group();
    launches(*stream);
    group = stream->end_task_group();
    graph = stream->end_capture();
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Stream> other;
  std::unique_ptr<CapturedGraph> graph;
  TaskGroup* group = nullptr;
};

TEST_P(DeviceContract, AnUpdateOfAnotherNumberOrKindOfLaunchesChangesNothing) {
  const auto data = buffer(1);
  UpdateFixture f(*device_, [&](Stream& stream) {
    add(stream, *data, 1);
    multiply(stream, *data, 2);
  });
  // Too few.
  f.stream->begin_task_update(*f.group);
  add(*f.stream, *data, 50);
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, f.stream->end_task_update());
  // None.
  f.stream->begin_task_update(*f.group);
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, f.stream->end_task_update());
  // Too many.
  f.stream->begin_task_update(*f.group);
  add(*f.stream, *data, 50);
  multiply(*f.stream, *data, 50);
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, add(*f.stream, *data, 50));
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, f.stream->end_task_update());
  // Another kind.
  f.stream->begin_task_update(*f.group);
  add(*f.stream, *data, 50);
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, add(*f.stream, *data, 50));
  EXPECT_ERROR(ErrorCode::kTaskUpdateMismatch, f.stream->end_task_update());
  EXPECT_EQ(device_->counters().task_updates, 0);

  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 4);
  // The right one is still accepted.
  f.stream->begin_task_update(*f.group);
  add(*f.stream, *data, 2);
  multiply(*f.stream, *data, 3);
  f.stream->end_task_update();
  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 18);
  expect_usable(*f.stream);
}

TEST_P(DeviceContract, AnUpdateHoldsLaunchesOnly) {
  const auto data = buffer(1);
  const auto event = device_->create_event();
  const auto external = device_->create_event(EventKind::kExternal);
  UpdateFixture f(*device_, [&](Stream& stream) { add(stream, *data, 1); });
  const std::function<void()> operations[] = {
      [&] { f.other->fill_async(data->data(), 0, data->bytes()); },
      [&] { f.other->copy_async(data->data(), data->data(), 4, CopyKind::kDeviceToDevice); },
      [&] { f.other->host_function([](void*) {}, nullptr); },
      [&] { f.other->record(*event); },
      [&] { f.other->wait(*event); },
      [&] { f.other->record(*external); },
      [&] { f.other->wait(*external); },
      [&] { f.graph->replay(*f.other); },
  };
  for (const auto& operation : operations) {
    f.other->begin_task_update(*f.group);
    EXPECT_ERROR(ErrorCode::kTaskGroupOperation, operation());
    EXPECT_ERROR(ErrorCode::kTaskGroupOperation, f.other->end_task_update());
  }
  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 2);
  expect_usable(*f.other);
}

TEST_P(DeviceContract, UpdatesPairUp) {
  const auto data = buffer(1);
  UpdateFixture f(*device_, [&](Stream& stream) { add(stream, *data, 1); });
  EXPECT_ERROR(ErrorCode::kTaskGroupState, f.stream->end_task_update());
  f.stream->begin_task_update(*f.group);
  EXPECT_ERROR(ErrorCode::kTaskGroupState, f.stream->begin_task_update(*f.group));
  EXPECT_ERROR(ErrorCode::kTaskGroupState, f.other->begin_task_update(*f.group));
  EXPECT_ERROR(ErrorCode::kTaskGroupState, f.stream->begin_capture(CaptureMode::kThreadLocal));
  add(*f.stream, *data, 5);
  f.stream->end_task_update();
  EXPECT_ERROR(ErrorCode::kTaskGroupState, f.stream->end_task_update());
  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 6);
}

TEST_P(DeviceContract, AStreamThatCapturesCannotUpdate) {
  const auto data = buffer(1);
  UpdateFixture f(*device_, [&](Stream& stream) { add(stream, *data, 1); });
  f.other->begin_capture(CaptureMode::kThreadLocal);
  EXPECT_ERROR(ErrorCode::kStreamCapturing, f.other->begin_task_update(*f.group));
  EXPECT_ERROR(ErrorCode::kStreamCapturing, f.other->end_task_update());
  EXPECT_NE(f.other->end_capture(), nullptr);
  expect_usable(*f.other);
}

TEST_P(DeviceContract, AGroupCannotBeUpdatedWhileItsGraphIsCaptured) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto data = buffer(0);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  add(*stream, *data, 1);
  TaskGroup* group = stream->end_task_group();
  EXPECT_ERROR(ErrorCode::kGraphCapturing, other->begin_task_update(*group));
  EXPECT_NE(stream->end_capture(), nullptr);
}

TEST_P(DeviceContract, AStreamThatEndsInsideAnUpdateLetsGoOfTheGroup) {
  const auto data = buffer(1);
  UpdateFixture f(*device_, [&](Stream& stream) { add(stream, *data, 1); });
  {
    const auto passing = device_->create_stream();
    passing->begin_task_update(*f.group);
    add(*passing, *data, 5);
  }
  f.other->begin_task_update(*f.group);
  add(*f.other, *data, 2);
  f.other->end_task_update();
  f.other->synchronize();
  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 3);
}

TEST_P(DeviceContract, ACoreLimitAppliesToUpdates) {
  const auto data = buffer(0);
  UpdateFixture f(*device_, [&](Stream& stream) { add(stream, *data, 1); });
  const uint64_t before = f.graph->hash(true);
  f.stream->set_core_limit({1, 0});
  f.stream->begin_task_update(*f.group);
  add(*f.stream, *data, 1);
  f.stream->end_task_update();
  f.stream->synchronize();
  EXPECT_NE(f.graph->hash(true), before);
  f.graph->replay(*f.stream);
  f.stream->synchronize();
  expect_all(*data, 1);
}

}  // namespace
}  // namespace reprise::device::contract
