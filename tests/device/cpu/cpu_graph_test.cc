// Captured graphs as data, and what replaying them costs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "device/cpu/allocation_count.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/test_kernels.h"

namespace reprise::device::cpu {
namespace {

CpuStream& graph_stream(Stream& stream) { return dynamic_cast<CpuStream&>(stream); }

class GraphAsData : public testing::Test {
 protected:
  std::unique_ptr<CapturedGraph> capture(void* data, int32_t value, std::span<const int32_t> list) {
    side_ = device_->create_stream({.priority = 2, .name = "side \"2\""});
    const auto fork = device_->create_event();
    const auto join = device_->create_event();
    const auto gate = device_->create_event(EventKind::kExternal);
    stream_->begin_capture(CaptureMode::kThreadLocal);
    kernels_->add(*stream_, data, 40, value);
    stream_->record(*fork);
    side_->wait(*fork);
    side_->fill_async(data, 3, 16);
    side_->record(*join);
    stream_->wait(*join);
    stream_->wait(*gate);
    stream_->begin_task_group();
    kernels_->store_list(*stream_, data, list);
    stream_->end_task_group();
    stream_->host_function([](void*) {}, nullptr);
    stream_->copy_async(data, data, 8, CopyKind::kDeviceToDevice);
    stream_->record(*gate);
    return stream_->end_capture();
  }

  std::unique_ptr<Device> device_ = create_cpu_device({.threads = 2, .discrete = false});
  std::unique_ptr<contract::TestKernels> kernels_ = make_test_kernels();
  std::unique_ptr<Stream> stream_ = device_->create_stream({.priority = 0, .name = "main"});
  std::unique_ptr<Stream> side_;
};

TEST_F(GraphAsData, TextHasOneInstructionALine) {
  const auto storage = device_->allocate(160);
  const std::vector<int32_t> list{4, -5};
  const auto graph = capture(storage->data(), 7, list);
  const std::string at = fmt::format("@{:x}", reinterpret_cast<uintptr_t>(storage->data()));
  const std::string expected =
      "captured graph: 13 instructions, 2 streams\n"
      "    0 main launch add.i32 tiles=3 arguments=[" +
      at +
      " 0x28 0x7]\n"
      "    1 main record edge0\n"
      "    2 side \"2\" wait edge0\n"
      "    3 side \"2\" fill " +
      at +
      " value=3 bytes=16\n"
      "    4 side \"2\" record edge1\n"
      "    5 main wait edge1\n"
      "    6 main external_wait external0\n"
      "    7 main begin_task_group\n"
      "    8 main launch store_list.i32 tiles=2 arguments=[" +
      at +
      "] tail(2)=[4 -5]\n"
      "    9 main end_task_group\n"
      "   10 main host_function data=@0\n"
      "   11 main copy " +
      at + " <- " + at +
      " bytes=8\n"
      "   12 main external_record external0\n";
  EXPECT_EQ(graph->to_text(), expected);
}

TEST_F(GraphAsData, JsonNamesStreamsAndOperations) {
  const auto storage = device_->allocate(160);
  const auto graph = capture(storage->data(), 7, std::vector<int32_t>{4, -5});
  const std::string json = graph->to_json();
  EXPECT_TRUE(json.starts_with(
      R"({"streams":[{"name":"main","priority":0},{"name":"side \"2\"","priority":2}],"instructions":[)"
      R"({"operation":"launch","stream":0,"kernel":"add.i32","tiles":3,"threads":0,"arguments":["@)"));
  EXPECT_NE(json.find(R"("tail":[4,-5]})"), std::string::npos);
  EXPECT_NE(json.find(R"({"operation":"begin_task_group","stream":0},)"), std::string::npos);
  EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
}

TEST_F(GraphAsData, StatisticsCountEveryKindOfInstruction) {
  const auto storage = device_->allocate(160);
  const GraphStatistics s = capture(storage->data(), 7, std::vector<int32_t>{4, -5})->statistics();
  EXPECT_EQ(s.launches, 2);
  EXPECT_EQ(s.copies, 1);
  EXPECT_EQ(s.fills, 1);
  EXPECT_EQ(s.host_functions, 1);
  EXPECT_EQ(s.records, 3);
  EXPECT_EQ(s.waits, 3);
  EXPECT_EQ(s.task_groups, 1);
  EXPECT_EQ(s.streams, 2);
  EXPECT_GT(s.bytes, 0);
}

TEST_F(GraphAsData, HashTellsArgumentsListsAndAddressesApart) {
  const auto a = device_->allocate(160);
  const auto b = device_->allocate(160);
  const std::vector<int32_t> list{4, -5};
  const auto graph = capture(a->data(), 7, list);
  EXPECT_EQ(graph->hash(true), capture(a->data(), 7, list)->hash(true));
  EXPECT_EQ(graph->hash(false), capture(b->data(), 7, list)->hash(false));
  EXPECT_NE(graph->hash(true), capture(b->data(), 7, list)->hash(true));
  EXPECT_NE(graph->hash(false), capture(a->data(), 8, list)->hash(false));
  EXPECT_NE(graph->hash(false), capture(a->data(), 7, std::vector<int32_t>{4, -6})->hash(false));
  EXPECT_NE(graph->hash(false), capture(a->data(), 7, std::vector<int32_t>{4})->hash(false));
}

TEST_F(GraphAsData, PaddingOfArgumentsIsNoPartOfThem) {
#if !__has_builtin(__builtin_clear_padding)
  GTEST_SKIP() << "this compiler cannot clear gaps";
#endif
  struct Padded {
    void* data;
    int32_t value;  // four bytes of padding follow
  };
  static constexpr Kernel kNothing{"nothing", [](const void*, int64_t, int64_t) {}};
  const auto storage = device_->allocate(16);
  std::set<uint64_t> hashes;
  for (const int garbage : {0x00, 0x55, 0xff}) {
    alignas(Padded) std::byte bytes[sizeof(Padded)];
    std::memset(bytes, garbage, sizeof(bytes));
    auto* arguments = new (bytes) Padded;
    arguments->data = storage->data();
    arguments->value = 1;
    stream_->begin_capture(CaptureMode::kThreadLocal);
    graph_stream(*stream_).launch(kNothing, 1, *arguments);
    hashes.insert(stream_->end_capture()->hash(true));
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST_F(GraphAsData, TextShowsAnUpdate) {
  const auto storage = device_->allocate(160);
  stream_->begin_capture(CaptureMode::kThreadLocal);
  stream_->begin_task_group();
  kernels_->store_list(*stream_, storage->data(), std::vector<int32_t>{1});
  TaskGroup* group = stream_->end_task_group();
  const auto graph = stream_->end_capture();
  stream_->begin_task_update(*group);
  kernels_->store_list(*stream_, storage->data(), std::vector<int32_t>{5, 6, 7});
  stream_->end_task_update();
  EXPECT_NE(graph->to_text().find("tiles=1 "), std::string::npos);  // queued, not done
  stream_->synchronize();
  EXPECT_NE(graph->to_text().find("tiles=3 "), std::string::npos);
  EXPECT_NE(graph->to_text().find("tail(3)=[5 6 7]"), std::string::npos);
}

// ---- cost, by counting

class ReplayCost : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Device> device_ = create_cpu_device({.threads = GetParam(), .discrete = false});
  std::unique_ptr<contract::TestKernels> kernels_ = make_test_kernels();
};

TEST_P(ReplayCost, ReplaysAndUpdatesAllocateNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer has its own allocator";
  const auto stream = device_->create_stream();
  const auto updates = device_->create_stream();
  const auto gate = device_->create_event(EventKind::kExternal);
  const auto done = device_->create_event();
  const auto data = device_->allocate(4096);
  stream->begin_capture(CaptureMode::kThreadLocal);
  for (int i = 0; i < 20; ++i) kernels_->add(*stream, data->data(), 1000, 1);
  stream->wait(*gate);
  stream->begin_task_group();
  kernels_->store_list(*stream, data->data(), std::vector<int32_t>(10, 1));
  TaskGroup* group = stream->end_task_group();
  const auto graph = stream->end_capture();
  std::vector<int32_t> list(100, 2);
  const auto step = [&] {
    graph->replay(*stream);
    updates->begin_task_update(*group);
    kernels_->store_list(*updates, data->data(), list);
    updates->end_task_update();
    updates->record(*gate);
    stream->record(*done);
    done->synchronize();
    stream->synchronize();
  };
  for (int i = 0; i < 5; ++i) step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST_P(ReplayCost, EagerLaunchesAllocateNothingOnceTheQueueHasGrown) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer has its own allocator";
  const auto stream = device_->create_stream();
  const auto data = device_->allocate(4096);
  const auto step = [&] {
    for (int i = 0; i < 500; ++i) kernels_->add(*stream, data->data(), 1000, 1);
    stream->synchronize();
  };
  for (int i = 0; i < 3; ++i) step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST_P(ReplayCost, ALaunchCallsItsKernelAFewTimesWhateverItsTiles) {
  struct Arguments {
    std::atomic<int>* calls;
  };
  static constexpr Kernel kCount{"count", [](const void* arguments, int64_t, int64_t) {
                                   static_cast<const Arguments*>(arguments)->calls->fetch_add(1);
                                 }};
  const auto stream = device_->create_stream();
  std::atomic<int> calls = 0;
  stream->begin_capture(CaptureMode::kThreadLocal);
  for (int i = 0; i < 10; ++i) graph_stream(*stream).launch(kCount, 1000, Arguments{&calls});
  graph_stream(*stream).launch(kCount, 0, Arguments{&calls});
  const auto graph = stream->end_capture();
  graph->replay(*stream);
  stream->synchronize();
  // One call where one thread does it; otherwise a few chunks for each thread.
  EXPECT_GE(calls, 10);
  EXPECT_LE(calls, GetParam() == 1 ? 10 : 10 * 4 * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, ReplayCost, testing::Values(1, 2, 5), testing::PrintToStringParamName());

}  // namespace
}  // namespace reprise::device::cpu
