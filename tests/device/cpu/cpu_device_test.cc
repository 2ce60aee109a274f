// The CPU's own rules: threads, memory, the dumps of captured graphs.
#include "device/cpu/cpu_device.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "base/cpu_topology.h"
#include "device/cpu/event_state.h"
#include "device/cpu/stream_queue.h"
#include "device/cpu/test_kernels.h"

namespace reprise::device::cpu {
namespace {

/// Which thread did which tile.
struct TraceArguments {
  std::thread::id* threads;
};
constexpr Kernel kTrace{"trace", [](const void* arguments, int64_t first, int64_t last) {
                          for (int64_t i = first; i < last; ++i)
                            static_cast<const TraceArguments*>(arguments)->threads[i] = std::this_thread::get_id();
                        }};

/// Counts calls, and the thread switches a launch costs.
struct CountArguments {
  std::atomic<int>* calls;
};
constexpr Kernel kCount{"count", [](const void* arguments, int64_t, int64_t) {
                          static_cast<const CountArguments*>(arguments)->calls->fetch_add(1);
                        }};

CpuStream& cpu_stream(Stream& stream) { return dynamic_cast<CpuStream&>(stream); }

size_t distinct(const std::vector<std::thread::id>& threads) {
  return std::set<std::thread::id>(threads.begin(), threads.end()).size();
}

class CpuThreads : public testing::TestWithParam<int> {
 protected:
  CpuThreads() : device_(create_cpu_device({.threads = GetParam(), .discrete = false})) {}
  std::unique_ptr<Device> device_;
};

TEST_P(CpuThreads, EachTileIsDoneOnceByOneOfTheThreads) {
  const auto stream = device_->create_stream();
  for (const int64_t tiles : {0, 1, 2, 5, 7, 64}) {
    std::vector<std::thread::id> threads(static_cast<size_t>(tiles));
    cpu_stream(*stream).launch(kTrace, tiles, TraceArguments{threads.data()});
    stream->synchronize();
    EXPECT_LE(distinct(threads), static_cast<size_t>(std::min<int64_t>(tiles, GetParam()))) << tiles;
    EXPECT_EQ(std::count(threads.begin(), threads.end(), std::thread::id()), 0);
  }
}

TEST_P(CpuThreads, ALaunchSeesAllTilesOfTheOneBefore) {
  // A running sum over a ring: tile i reads what tile i + 1 wrote in the launch before.
  constexpr int kTiles = 10;
  struct Arguments {
    const int64_t* from;
    int64_t* to;
  };
  static constexpr Kernel kShift{"shift", [](const void* arguments, int64_t first, int64_t last) {
                                   const auto& a = *static_cast<const Arguments*>(arguments);
                                   for (int64_t i = first; i < last; ++i) a.to[i] = a.from[(i + 1) % kTiles] + 1;
                                 }};
  std::vector<int64_t> a(kTiles);
  std::vector<int64_t> b(kTiles);
  std::iota(a.begin(), a.end(), 0);
  const auto stream = device_->create_stream();
  const auto launches = [&] {
    for (int i = 0; i < 50; ++i) {
      cpu_stream(*stream).launch(kShift, kTiles, Arguments{a.data(), b.data()});
      cpu_stream(*stream).launch(kShift, kTiles, Arguments{b.data(), a.data()});
    }
  };
  launches();
  stream->begin_capture(CaptureMode::kThreadLocal);
  launches();
  const auto graph = stream->end_capture();
  graph->replay(*stream);
  stream->synchronize();
  for (int i = 0; i < kTiles; ++i) EXPECT_EQ(a[static_cast<size_t>(i)], (i + 200) % kTiles + 200);
}

TEST_P(CpuThreads, SingleTilesBetweenWideLaunchesKeepTheOrder) {
  constexpr int kTiles = 8;
  struct Arguments {
    int64_t* values;
    int64_t* sum;
  };
  static constexpr Kernel kSum{"sum", [](const void* arguments, int64_t, int64_t) {
                                 const auto& a = *static_cast<const Arguments*>(arguments);
                                 *a.sum = std::accumulate(a.values, a.values + kTiles, int64_t{0});
                               }};
  static constexpr Kernel kSpread{"spread", [](const void* arguments, int64_t first, int64_t last) {
                                    const auto& a = *static_cast<const Arguments*>(arguments);
                                    for (int64_t i = first; i < last; ++i) a.values[i] = *a.sum % 1009 + i;
                                  }};
  std::vector<int64_t> values(kTiles, 1);
  int64_t sum = 0;
  const Arguments arguments{values.data(), &sum};
  const auto stream = device_->create_stream();
  int64_t expected = 0;
  std::vector<int64_t> model(kTiles, 1);
  for (int i = 0; i < 40; ++i) {
    cpu_stream(*stream).launch(kSum, 1, arguments);
    cpu_stream(*stream).launch(kSum, 1, arguments);
    cpu_stream(*stream).launch(kSpread, kTiles, arguments);
    expected = std::accumulate(model.begin(), model.end(), int64_t{0});
    for (int64_t t = 0; t < kTiles; ++t) model[static_cast<size_t>(t)] = expected % 1009 + t;
  }
  stream->synchronize();
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(values, model);
}

TEST_P(CpuThreads, ACoreLimitBoundsTheThreadsOfALaunch) {
  const auto stream = device_->create_stream();
  std::vector<std::thread::id> threads(64);
  for (int limit = 1; limit <= GetParam(); ++limit) {
    for (const CoreLimit cores : {CoreLimit{limit, 0}, CoreLimit{0, limit}, CoreLimit{GetParam(), limit}}) {
      stream->set_core_limit(cores);
      cpu_stream(*stream).launch(kTrace, 64, TraceArguments{threads.data()});
      stream->synchronize();
      EXPECT_LE(distinct(threads), static_cast<size_t>(limit));
    }
  }
  // Frozen at capture, whatever the stream's limit is at replay.
  stream->set_core_limit({1, 1});
  stream->begin_capture(CaptureMode::kThreadLocal);
  cpu_stream(*stream).launch(kTrace, 64, TraceArguments{threads.data()});
  const auto graph = stream->end_capture();
  stream->set_core_limit({});
  graph->replay(*stream);
  stream->synchronize();
  EXPECT_EQ(distinct(threads), 1u);
}

TEST_P(CpuThreads, CapabilitiesTellTheThreads) {
  EXPECT_EQ(device_->capabilities().cores, GetParam());
  EXPECT_NE(device_->capabilities().description.find("as asked for"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuThreads, testing::Values(1, 2, 5), testing::PrintToStringParamName());

TEST(CpuDevice, B79UsesAsManyThreadsAsTheProcessMayAndSaysWhy) {
  const CpuBudget budget = cpu_budget();
  const auto device = create_cpu_device();
  EXPECT_EQ(device->capabilities().cores, budget.cpus);
  EXPECT_NE(device->capabilities().description.find(budget.reason), std::string::npos);
}

TEST(CpuDevice, RefusesNegativeThreads) {
  EXPECT_ERROR(ErrorCode::kInvalidArgument, create_cpu_device({.threads = -1, .discrete = false}));
}

// ---- execution

TEST(CpuDevice, QueuedLaunchesWaitForTheThreadThatNeedsThem) {
  const auto device = create_cpu_device({.threads = 2, .discrete = false});
  const auto stream = device->create_stream();
  std::atomic<int> calls = 0;
  for (int i = 0; i < 100; ++i) cpu_stream(*stream).launch(kCount, 1, CountArguments{&calls});
  EXPECT_EQ(calls, 0);
  stream->synchronize();
  EXPECT_EQ(calls, 100);
}

TEST(CpuDevice, AnErrorOfAKernelReachesTheCallerAndTheDeviceGoesOn) {
  // Kernels must not throw. One that does, of a user's own, must not stop the device for ever.
  static constexpr Kernel kFaulty{"faulty", [](const void*, int64_t, int64_t last) {
                                    if (last > 0) throw Error(ErrorCode::kInternal, "a fault in a kernel");
                                  }};
  for (const int threads : {1, 3}) {
    const auto device = create_cpu_device({.threads = threads, .discrete = false});
    const auto stream = device->create_stream();
    std::atomic<int> calls = 0;
    cpu_stream(*stream).launch(kFaulty, 3, CountArguments{&calls});
    EXPECT_ERROR(ErrorCode::kInternal, stream->synchronize());
    cpu_stream(*stream).launch(kCount, 2, CountArguments{&calls});
    EXPECT_TRUE(stream->synchronize_for(2000));
    EXPECT_GE(calls, 1);
    EXPECT_LE(calls, 2);
    stream->begin_capture(CaptureMode::kThreadLocal);
    cpu_stream(*stream).launch(kFaulty, 3, CountArguments{&calls});
    const auto graph = stream->end_capture();
    graph->replay(*stream);
    EXPECT_ERROR(ErrorCode::kInternal, stream->synchronize());
    EXPECT_TRUE(stream->synchronize_for(2000));
    graph->close();
  }
}

TEST(CpuDevice, AGraphMayBeClosedByTwoThreadsAtOnce) {
  for (int round = 0; round < 20; ++round) {
    const auto device = create_cpu_device({.threads = 1, .discrete = false});
    const auto stream = device->create_stream();
    const auto gate = device->create_event(EventKind::kExternal);
    std::atomic<int> calls = 0;
    stream->begin_capture(CaptureMode::kThreadLocal);
    stream->wait(*gate);
    cpu_stream(*stream).launch(kCount, 1, CountArguments{&calls});
    const auto graph = stream->end_capture();
    graph->replay(*stream);
    std::thread first([&] { graph->close(); });
    std::thread second([&] { graph->close(); });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    device->default_stream().record(*gate);
    device->default_stream().synchronize();
    first.join();
    second.join();
    EXPECT_EQ(calls, 1);
  }
}

TEST(CpuDevice, RecordsThatAreLostWithAStreamAreWaitedForByNobody) {
  StreamQueue queue(0);
  const auto event = std::make_shared<EventState>(EventKind::kOrdinary);
  Instruction record(Opcode::kRecord);
  record.event = {event.get(), 1};
  queue.append(1).add(record);
  queue.keep(event);
  EXPECT_FALSE(event->is_reached(1));
  queue.drop();
  EXPECT_TRUE(event->is_reached(1));
  EXPECT_TRUE(queue.empty());
}

TEST(CpuDevice, ALongQueueIsRunByTheThreadThatFillsIt) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto stream = device->create_stream();
  std::atomic<int> calls = 0;
  for (int i = 0; i < 5000; ++i) cpu_stream(*stream).launch(kCount, 1, CountArguments{&calls});
  EXPECT_GE(calls, 4096);
  const std::vector<int32_t> tail(100'000);
  const int before = calls;
  for (int i = 0; i < 10; ++i) cpu_stream(*stream).launch(kCount, 1, CountArguments{&calls}, tail);
  EXPECT_GT(calls, before);
  stream->synchronize();
  EXPECT_EQ(calls, 5010);
}

TEST(CpuDevice, AQueueThatWaitsGrowsInsteadOfBlockingTheCaller) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto stream = device->create_stream();
  const auto event = device->create_event(EventKind::kExternal);
  std::atomic<int> calls = 0;
  stream->wait(*event);
  for (int i = 0; i < 20'000; ++i) cpu_stream(*stream).launch(kCount, 1, CountArguments{&calls});
  EXPECT_EQ(calls, 0);
  device->default_stream().record(*event);
  stream->synchronize();
  EXPECT_EQ(calls, 20'000);
}

TEST(CpuDevice, UrgentStreamsGoFirst) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto relaxed = device->create_stream({.priority = 5, .name = {}});
  const auto urgent = device->create_stream({.priority = -5, .name = {}});
  std::string order;
  const auto append = [&](Stream& stream, void (*function)(void*)) { stream.host_function(function, &order); };
  append(*relaxed, [](void* text) { static_cast<std::string*>(text)->push_back('r'); });
  append(*urgent, [](void* text) { static_cast<std::string*>(text)->push_back('u'); });
  relaxed->synchronize();
  EXPECT_EQ(order, "ur");
}

TEST(CpuDevice, UrgentLanesOfAGraphGoFirst) {
  const auto device = create_cpu_device({.threads = 1, .discrete = false});
  const auto origin = device->create_stream({.priority = 0, .name = {}});
  const auto urgent = device->create_stream({.priority = -1, .name = {}});
  const auto fork = device->create_event();
  const auto join = device->create_event();
  const auto gate = device->create_event(EventKind::kExternal);
  std::string order;
  origin->begin_capture(CaptureMode::kThreadLocal);
  origin->wait(*gate);
  origin->record(*fork);
  origin->host_function([](void* text) { static_cast<std::string*>(text)->push_back('o'); }, &order);
  urgent->wait(*fork);
  urgent->host_function([](void* text) { static_cast<std::string*>(text)->push_back('u'); }, &order);
  urgent->record(*join);
  origin->host_function([](void* text) { static_cast<std::string*>(text)->push_back('O'); }, &order);
  origin->wait(*join);
  const auto graph = origin->end_capture();
  device->default_stream().record(*gate);
  device->synchronize();
  graph->replay(*origin);
  origin->synchronize();
  EXPECT_EQ(order, "ouO");
}

}  // namespace
}  // namespace reprise::device::cpu
