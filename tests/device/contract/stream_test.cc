// Streams, memory and events outside of capture.
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "device/contract/contract.h"

namespace reprise::device::contract {
namespace {

TEST_P(DeviceContract, WorkOfOneStreamRunsInOrder) {
  const auto stream = device_->create_stream();
  const auto data = buffer(1);
  for (int i = 0; i < 5; ++i) {
    add(*stream, *data, 1);
    multiply(*stream, *data, 2);
  }
  stream->synchronize();
  expect_all(*data, 94);
  EXPECT_TRUE(stream->query());
}

TEST_P(DeviceContract, QueryFinishesWorkWithoutSynchronize) {
  const auto stream = device_->create_stream();
  const auto data = buffer(1);
  add(*stream, *data, 1);
  while (!stream->query()) std::this_thread::yield();
  expect_all(*data, 2);
}

TEST_P(DeviceContract, TheDefaultStreamRunsWork) {
  const auto data = buffer(1);
  add(device_->default_stream(), *data, 1);
  device_->synchronize();
  expect_all(*data, 2);
}

TEST_P(DeviceContract, CopiesAndFillsFollowTheStream) {
  const auto stream = device_->create_stream();
  const auto pinned = device_->allocate(kCount * sizeof(int32_t), MemoryKind::kPinnedHost);
  auto* host = static_cast<int32_t*>(pinned->data());
  std::fill(host, host + kCount, 5);
  const auto a = buffer(0);
  const auto b = buffer(0);
  stream->copy_async(a->data(), host, a->bytes(), CopyKind::kHostToDevice);
  add(*stream, *a, 1);
  stream->copy_async(b->data(), a->data(), a->bytes(), CopyKind::kDeviceToDevice);
  stream->fill_async(a->data(), 0, a->bytes() / 2);
  stream->copy_async(host, b->data(), b->bytes(), CopyKind::kDeviceToHost);
  stream->synchronize();
  EXPECT_EQ(host[0], 6);
  EXPECT_EQ(host[kCount - 1], 6);
  EXPECT_EQ(read(*a)[0], 0);
  EXPECT_EQ(read(*a)[kCount - 1], 6);
}

TEST_P(DeviceContract, LargeCopiesAndFillsAreComplete) {
  const auto stream = device_->create_stream();
  constexpr int64_t kMany = 1'000'003;
  const auto source = buffer(7, kMany);
  const auto target = buffer(0, kMany);
  stream->copy_async(target->data(), source->data(), source->bytes(), CopyKind::kDeviceToDevice);
  stream->fill_async(source->data(), 0x01, source->bytes());
  stream->synchronize();
  expect_all(*target, 7);
  expect_all(*source, 0x01010101);
}

TEST_P(DeviceContract, PageableCopyIsDoneWhenTheCallReturns) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  add(*stream, *data, 1);
  std::vector<int32_t> host(kCount, 0);
  stream->copy_async(host.data(), data->data(), data->bytes(), CopyKind::kDeviceToHost);
  EXPECT_EQ(host, std::vector<int32_t>(kCount, 1));
}

TEST_P(DeviceContract, MemoryReleasedBehindQueuedWorkIsStillThere) {
  const auto stream = device_->create_stream();
  const auto result = buffer(0);
  for (int i = 0; i < 50; ++i) {
    auto temporary = buffer(i);
    stream->copy_async(result->data(), temporary->data(), temporary->bytes(), CopyKind::kDeviceToDevice);
    temporary.reset();
    // Synchronous, and harmful if it got the memory just released.
    const auto next = buffer(-1);
  }
  stream->synchronize();
  expect_all(*result, 49);
}

TEST_P(DeviceContract, MemoryIsAccountedFor) {
  const size_t before = device_->memory_info().allocated_bytes;
  auto data = device_->allocate(1 << 20);
  const MemoryInfo info = device_->memory_info();
  EXPECT_GE(info.allocated_bytes, before + (1 << 20));
  EXPECT_GE(info.total_bytes, info.available_bytes);
  EXPECT_GT(info.available_bytes, 0u);
  data.reset();
  EXPECT_EQ(device_->memory_info().allocated_bytes, before);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device_->allocate(1)->data()) % 64, 0u);
}

TEST_P(DeviceContract, AbsurdAllocationsFailTyped) {
  EXPECT_ERROR(ErrorCode::kOutOfMemory, device_->allocate(size_t{1} << 50));
  EXPECT_ERROR(ErrorCode::kOutOfMemory, device_->allocate(SIZE_MAX));
}

TEST_P(DeviceContract, AnArenaKeepsItsAddressWhileItGrows) {
  const auto arena = device_->reserve_arena(size_t{64} << 20);
  arena->commit(4096);
  void* address = arena->data();
  const auto stream = device_->create_stream();
  stream->fill_async(address, 0, 4096);
  kernels_->add(*stream, address, 1024, 3);
  stream->synchronize();
  arena->commit(size_t{32} << 20);
  EXPECT_EQ(arena->data(), address);
  EXPECT_GE(arena->committed_bytes(), size_t{32} << 20) << "devices may back all of it from the start";
  auto* tail = static_cast<std::byte*>(address) + (size_t{32} << 20) - 4096;
  stream->fill_async(tail, 0, 4096);
  kernels_->add(*stream, tail, 1024, 5);
  stream->synchronize();
  int32_t first = 0;
  int32_t last = 0;
  device_->copy(&first, address, 4, CopyKind::kDeviceToHost);
  device_->copy(&last, tail + 4092, 4, CopyKind::kDeviceToHost);
  EXPECT_EQ(first, 3);
  EXPECT_EQ(last, 5);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, arena->commit(size_t{65} << 20));
}

TEST_P(DeviceContract, ImportedHostDataIsReadByKernels) {
  auto owner = std::make_shared<std::vector<int32_t>>(kCount, 9);
  const std::weak_ptr<const void> watch = owner;
  const TensorMeta meta(DType::kI32, Shape{kCount});
  {
    const Tensor tensor = device_->import(meta, std::as_bytes(std::span(*owner)), owner);
    owner.reset();
    const auto target = buffer(0);
    const auto stream = device_->create_stream();
    stream->copy_async(target->data(), tensor.data(), target->bytes(), CopyKind::kDeviceToDevice);
    stream->synchronize();
    expect_all(*target, 9);
  }
  device_->synchronize();
  EXPECT_TRUE(watch.expired());
}

TEST_P(DeviceContract, ImportOfTheWrongSizeFails) {
  const std::vector<int32_t> host(3);
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               device_->import(TensorMeta(DType::kI32, Shape{4}), std::as_bytes(std::span(host)), nullptr));
}

TEST_P(DeviceContract, EventsOrderStreams) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream({.priority = device_->capabilities().greatest_priority, .name = "urgent"});
  const auto event = device_->create_event();
  const auto data = buffer(1);
  add(*first, *data, 1);
  first->record(*event);
  second->wait(*event);
  multiply(*second, *data, 10);
  second->synchronize();
  expect_all(*data, 20);
}

TEST_P(DeviceContract, AWaitIsForTheRecordBeforeItWhateverIsRecordedLater) {
  const auto slow = device_->create_stream();
  const auto fast = device_->create_stream();
  const auto waiting = device_->create_stream();
  const auto gate = device_->create_event(EventKind::kExternal);
  const auto event = device_->create_event();
  const auto data = buffer(1);
  slow->wait(*gate);
  add(*slow, *data, 1);
  slow->record(*event);
  waiting->wait(*event);
  multiply(*waiting, *data, 10);
  // A later record, which is reached first, ends nobody's wait for the earlier one.
  fast->record(*event);
  EXPECT_TRUE(fast->synchronize_for(2000));
  EXPECT_TRUE(event->query()) << "the last record has been reached";
  EXPECT_FALSE(waiting->query());
  fast->record(*gate);
  EXPECT_TRUE(waiting->synchronize_for(2000));
  slow->synchronize();
  expect_all(*data, 20);
  EXPECT_TRUE(event->query()) << "an earlier record that is reached later does not undo it";
  fast->wait(*event);
  EXPECT_TRUE(fast->synchronize_for(2000));
  event->synchronize();
}

TEST_P(DeviceContract, AnEventRecordedOverAndOverByManyStreamsIsDoneWithItsLastRecord) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(device_->create_stream({.priority = -i, .name = {}}));
  const auto event = device_->create_event();
  const auto data = buffer(0);
  for (int round = 0; round < 40; ++round) {
    Stream& stream = *streams[static_cast<size_t>(round * 7 % 4)];
    stream.wait(*event);  // passes the turn on
    add(stream, *data, 1);
    stream.record(*event);
  }
  event->synchronize();
  expect_all(*data, 40);
  EXPECT_TRUE(event->query());
}

TEST_P(DeviceContract, ATimeoutPassesWhileOtherStreamsKeepTheDeviceBusy) {
  const auto waiting = device_->create_stream();
  const auto gate = device_->create_event(EventKind::kExternal);
  waiting->wait(*gate);
  std::atomic<bool> stop = false;
  std::thread feeder([&] {
    const auto busy = device_->create_stream();
    const auto data = device_->allocate(sizeof(int32_t) * kCount);
    while (!stop) {
      if (!busy->query()) continue;
      for (int i = 0; i < 500; ++i) add(*busy, *data, 1);
    }
    busy->synchronize();
  });
  std::thread watchdog([&] {
    for (int i = 0; i < 200 && !stop; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(stop) << "the timeout of 50 ms has not passed after 2 s";
    stop = true;
  });
  EXPECT_FALSE(waiting->synchronize_for(50));
  stop = true;
  feeder.join();
  watchdog.join();
  device_->default_stream().record(*gate);
  waiting->synchronize();
}

TEST_P(DeviceContract, AnEventThatWasNeverRecordedIsDone) {
  const auto event = device_->create_event();
  EXPECT_TRUE(event->query());
  event->synchronize();
  const auto stream = device_->create_stream();
  stream->wait(*event);
  stream->synchronize();
}

TEST_P(DeviceContract, AnEventMarksThePointOfItsLastRecord) {
  const auto stream = device_->create_stream();
  const auto start = device_->create_event();
  const auto end = device_->create_event();
  const auto data = buffer(0);
  stream->record(*start);
  add(*stream, *data, 1);
  stream->record(*end);
  end->synchronize();
  expect_all(*data, 1);
  EXPECT_TRUE(start->query());
  EXPECT_GE(end->elapsed_ms(*start), 0.0);
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, end->elapsed_ms(*device_->create_event()));
}

TEST_P(DeviceContract, AnEventMayEndBeforeTheWorkThatRefersToIt) {
  const auto first = device_->create_stream();
  const auto second = device_->create_stream();
  const auto data = buffer(1);
  {
    const auto event = device_->create_event();
    add(*first, *data, 1);
    first->record(*event);
    second->wait(*event);
  }
  add(*second, *data, 1);
  second->synchronize();
  expect_all(*data, 3);
}

TEST_P(DeviceContract, AnExternalEventIsNoPointOfAStream) {
  const auto event = device_->create_event(EventKind::kExternal);
  EXPECT_ERROR(ErrorCode::kUnsupported, event->query());
  EXPECT_ERROR(ErrorCode::kUnsupported, event->synchronize());
  EXPECT_ERROR(ErrorCode::kUnsupported, event->elapsed_ms(*device_->create_event()));
}

TEST_P(DeviceContract, SynchronizeWithATimeoutGivesUpOnWorkThatWaits) {
  const auto stream = device_->create_stream();
  const auto other = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  stream->wait(*event);
  EXPECT_FALSE(stream->synchronize_for(20));
  EXPECT_FALSE(stream->query());
  other->record(*event);
  EXPECT_TRUE(stream->synchronize_for(10000));
}

TEST_P(DeviceContract, AnotherThreadReleasesAWaitingStream) {
  const auto stream = device_->create_stream();
  const auto event = device_->create_event(EventKind::kExternal);
  const auto data = buffer(1);
  stream->wait(*event);
  add(*stream, *data, 1);
  std::thread releaser([&] {
    const auto other = device_->create_stream();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    other->record(*event);
    other->synchronize();
  });
  stream->synchronize();
  releaser.join();
  expect_all(*data, 2);
}

TEST_P(DeviceContract, StreamsMayBeUsedByManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = device_->create_stream({.priority = t % 2, .name = {}});
      const auto data = device_->allocate(sizeof(int32_t) * kCount);
      stream->fill_async(data->data(), 0, data->bytes());
      for (int i = 0; i < 50; ++i) {
        add(*stream, *data, 1);
        if (i % 7 == t) stream->synchronize();
      }
      stream->synchronize();
      if (read(*data) == std::vector<int32_t>(kCount, 50)) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

TEST_P(DeviceContract, HostFunctionsRunInStreamOrder) {
  const auto stream = device_->create_stream();
  std::vector<int> order;
  struct Entry {
    std::vector<int>* order;
    int value;
  };
  Entry entries[] = {{&order, 1}, {&order, 2}};
  for (Entry& entry : entries) {
    stream->host_function(
        [](void* data) {
          auto* e = static_cast<Entry*>(data);
          e->order->push_back(e->value);
        },
        &entry);
  }
  stream->synchronize();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_P(DeviceContract, TheErrorOfAHostFunctionComesWithSynchronizeOnce) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  stream->host_function([](void*) { throw std::runtime_error("out of paper"); }, nullptr);
  add(*stream, *data, 1);
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  stream->synchronize();
  expect_all(*data, 1);
}

TEST_P(DeviceContract, ANullHostFunctionIsRefused) {
  const auto stream = device_->create_stream();
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->host_function(nullptr, nullptr));
}

TEST_P(DeviceContract, PrioritiesOutsideTheCapabilitiesAreRefused) {
  const Capabilities& capabilities = device_->capabilities();
  EXPECT_LE(capabilities.greatest_priority, capabilities.least_priority);
  device_->create_stream({.priority = capabilities.greatest_priority, .name = {}});
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               device_->create_stream({.priority = capabilities.greatest_priority - 1, .name = {}}));
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               device_->create_stream({.priority = capabilities.least_priority + 1, .name = {}}));
}

TEST_P(DeviceContract, CoreLimitsAreKeptAndChecked) {
  const auto stream = device_->create_stream();
  stream->set_core_limit({1, 1});
  EXPECT_EQ(stream->core_limit(), (CoreLimit{1, 1}));
  const auto data = buffer(0);
  add(*stream, *data, 1);
  stream->synchronize();
  expect_all(*data, 1);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->set_core_limit({device_->capabilities().cores + 1, 0}));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->set_core_limit({0, -1}));
  EXPECT_EQ(stream->core_limit(), (CoreLimit{1, 1}));
}

TEST_P(DeviceContract, AClosedStreamRefusesWork) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  add(*stream, *data, 1);
  stream->close();
  expect_all(*data, 1);
  stream->close();
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, add(*stream, *data, 1));
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, stream->synchronize());
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, stream->begin_capture(CaptureMode::kGlobal));
}

TEST_P(DeviceContract, CountersCountEagerWorkAndAllocations) {
  const DeviceCounters before = device_->counters();
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  add(*stream, *data, 1);
  stream->synchronize();
  const DeviceCounters after = device_->counters();
  EXPECT_EQ(after.launches, before.launches + 1);
  EXPECT_EQ(after.allocations, before.allocations + 1);
  EXPECT_EQ(after.replays, before.replays);
}

TEST_P(DeviceContract, ObjectsOfAnotherDeviceAreRefused) {
  const auto other = GetParam().make_device();
  const auto stream = device_->create_stream();
  const auto event = other->create_event();
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->record(*event));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, stream->wait(*event));
  const auto data = buffer(0);
  const auto graph = capture_add(*stream, *data, 1);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, graph->replay(other->default_stream()));
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->begin_task_group();
  add(*stream, *data, 1);
  TaskGroup* group = stream->end_task_group();
  const auto with_group = stream->end_capture();
  EXPECT_ERROR(ErrorCode::kInvalidArgument, other->default_stream().begin_task_update(*group));
}

}  // namespace
}  // namespace reprise::device::contract
