// What documents leave open and only an NPU can answer. Each test asks the runtime itself, says what it answers (lines
// that begin with "answer:", for tools/ascend_first_day), and fails where the device relies on another answer.
#ifdef REPRISE_EMULATOR_DIR
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "device/ascend/ascend_stream.h"
#include "device/ascend/interface/acl_operators.h"
#include "device/ascend/resource_budget.h"
#include "device/ascend/test_kernels.h"

namespace reprise::device::ascend {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void answer(const std::string& text) { std::cout << "answer: " << text << std::endl; }

/// The runtime itself, beside the device that opens it.
class OpenQuestions : public testing::Test {
 protected:
  OpenQuestions()
      : device_(create_ascend_device(emulator_options())),
        library_(dynamic_cast<AscendStream&>(device_->default_stream()).library()),
        kernels_(make_operator_kernels()) {}

  aclrtStream make_stream(uint32_t priority = 4) {
    aclrtStream stream = nullptr;
    EXPECT_EQ(library_.aclrtCreateStreamWithConfig(&stream, priority, 0), ACL_SUCCESS);
    streams_.push_back(stream);
    return stream;
  }
  void TearDown() override {
    for (aclrtStream stream : streams_) library_.aclrtDestroyStream(stream);
  }
  int64_t free_streams() const {
    uint32_t count = 0;
    EXPECT_EQ(library_.aclrtGetStreamAvailableNum(&count), ACL_SUCCESS);
    return count;
  }
  int64_t free_events() const {
    uint32_t count = 0;
    EXPECT_EQ(library_.aclrtGetEventAvailNum(&count), ACL_SUCCESS);
    return count;
  }
  bool lacks(Feature feature) const { return !library_.features().has(feature); }
  /// A graph of `tasks` fills of one word.
  aclmdlRI capture_fills(aclrtStream stream, Storage& word, int tasks) {
    aclmdlRI graph = nullptr;
    EXPECT_EQ(library_.aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL), ACL_SUCCESS);
    for (int i = 0; i < tasks; ++i)
      EXPECT_EQ(library_.aclrtMemsetAsync(word.data(), word.bytes(), i, word.bytes(), stream), ACL_SUCCESS);
    EXPECT_EQ(library_.aclmdlRICaptureEnd(stream, &graph), ACL_SUCCESS);
    return graph;
  }

  std::unique_ptr<Device> device_;
  const AclLibrary& library_;
  std::unique_ptr<contract::TestKernels> kernels_;
  std::vector<aclrtStream> streams_;
};

TEST_F(OpenQuestions, HowManyStreamsAndEventsThereAre) {
  if (lacks(Feature::kResourceCount)) GTEST_SKIP() << library_.features().why_not(Feature::kResourceCount);
  const char* name = library_.aclrtGetSocName();
  ASSERT_NE(name, nullptr);
  const CaptureRoom documented = documented_room(name);
  answer(fmt::format("{}: {} streams and {} events are free; {} and {} are documented", name, free_streams(),
                     free_events(), documented.streams, documented.events));
  EXPECT_GT(free_streams(), 0);
  EXPECT_LE(free_streams(), documented.streams);
  EXPECT_LE(free_events(), documented.events);
}

TEST_F(OpenQuestions, WhetherGraphsHoldStreamsAndGiveThemBack) {
  if (lacks(Feature::kGraph) || lacks(Feature::kResourceCount)) GTEST_SKIP() << "no graphs, or no counts";
  constexpr int kGraphs = 8;
  aclrtStream stream = make_stream();
  const auto word = device_->allocate(64);
  const int64_t streams = free_streams();
  const int64_t events = free_events();
  std::vector<aclmdlRI> graphs;
  for (int i = 0; i < kGraphs; ++i) graphs.push_back(capture_fills(stream, *word, 3));
  answer(fmt::format("{} graphs of one stream hold {} streams and {} events", kGraphs, streams - free_streams(),
                     events - free_events()));
  EXPECT_LE(streams - free_streams(), kGraphs);
  for (aclmdlRI graph : graphs) EXPECT_EQ(library_.aclmdlRIDestroy(graph), ACL_SUCCESS);
  EXPECT_EQ(free_streams(), streams);
}

TEST_F(OpenQuestions, HowManyStreamsALongGraphHolds) {
  if (lacks(Feature::kGraph) || lacks(Feature::kResourceCount)) GTEST_SKIP() << "no graphs, or no counts";
  constexpr int kTasks = 5000;
  aclrtStream stream = make_stream();
  const auto word = device_->allocate(64);
  const int64_t streams = free_streams();
  aclmdlRI graph = capture_fills(stream, *word, kTasks);
  answer(fmt::format("a graph of {} tasks holds {} streams", kTasks, streams - free_streams()));
  EXPECT_EQ(library_.aclmdlRIExecuteAsync(graph, stream), ACL_SUCCESS);
  device_->synchronize();
  EXPECT_EQ(library_.aclrtSynchronizeStreamWithTimeout(stream, 20000), ACL_SUCCESS);
  EXPECT_EQ(library_.aclmdlRIDestroy(graph), ACL_SUCCESS);
}

TEST_F(OpenQuestions, WhatTwoReplaysOfOneGraphOnTwoStreamsDo) {
  if (lacks(Feature::kGraph)) GTEST_SKIP() << library_.features().why_not(Feature::kGraph);
  aclrtStream first = make_stream();
  aclrtStream second = make_stream();
  const auto word = device_->allocate(64);
  aclmdlRI graph = capture_fills(first, *word, 100);
  const int one = library_.aclmdlRIExecuteAsync(graph, first);
  const int two = library_.aclmdlRIExecuteAsync(graph, second);
  for (aclrtStream stream : {first, second})
    EXPECT_EQ(library_.aclrtSynchronizeStreamWithTimeout(stream, 20000), ACL_SUCCESS);
  answer(fmt::format("replays of one graph on two streams at once: {} and {}", one, two));
  EXPECT_EQ(one, ACL_SUCCESS);
  EXPECT_EQ(library_.aclmdlRIDestroy(graph), ACL_SUCCESS);
}

TEST_F(OpenQuestions, WhichPrioritiesStreamsCanHave) {
  std::string taken;
  for (uint32_t priority = 0; priority <= 8; ++priority) {
    aclrtStream stream = nullptr;
    const int code = library_.aclrtCreateStreamWithConfig(&stream, priority, 0);
    if (code == ACL_SUCCESS) library_.aclrtDestroyStream(stream);
    taken += fmt::format(" {}:{}", priority, code == ACL_SUCCESS ? "yes" : std::to_string(code));
    EXPECT_TRUE(code == ACL_SUCCESS || priority == 8) << priority;
  }
  answer("priorities of streams:" + taken);
}

TEST_F(OpenQuestions, HowMemoryIsAligned) {
  uintptr_t bits = 0;
  std::vector<void*> memory(64);
  for (size_t i = 0; i < memory.size(); ++i) {
    ASSERT_EQ(library_.aclrtMalloc(&memory[i], 33 + i, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    bits |= reinterpret_cast<uintptr_t>(memory[i]);
  }
  for (void* address : memory) library_.aclrtFree(address);
  answer(fmt::format("memory is aligned to {} bytes", bits & (~bits + 1)));
  EXPECT_EQ(bits % 64, 0u);
}

TEST_F(OpenQuestions, WhatAnErrorSays) {
  if (library_.aclGetRecentErrMsg == nullptr) GTEST_SKIP() << "no texts of errors";
  aclrtStream stream = nullptr;
  const int code = library_.aclrtCreateStreamWithConfig(&stream, 99, 0);
  const char* text = library_.aclGetRecentErrMsg();
  answer(fmt::format("a stream of priority 99: {} \"{}\"", code, text == nullptr ? "" : text));
  EXPECT_NE(code, ACL_SUCCESS);
  EXPECT_NE(text, nullptr);
}

TEST_F(OpenQuestions, WhetherAnExecutorCanBeRepeatedWithOtherAddresses) {
  if (lacks(Feature::kRepeatableExecutor)) GTEST_SKIP() << library_.features().why_not(Feature::kRepeatableExecutor);
  const auto first = reinterpret_cast<decltype(&aclnnAddsGetWorkspaceSize)>(library_.find("aclnnAddsGetWorkspaceSize"));
  const auto second = reinterpret_cast<decltype(&aclnnAdds)>(library_.find("aclnnAdds"));
  ASSERT_TRUE(first != nullptr && second != nullptr);
  aclrtStream stream = make_stream();
  constexpr int64_t kCount = 16;
  constexpr int64_t kStride = 1;
  std::shared_ptr<Storage> memory[2];
  aclTensor* tensors[2];
  for (int i = 0; i < 2; ++i) {
    memory[i] = device_->allocate(kCount * sizeof(int32_t));
    device_->fill(memory[i]->data(), 0, memory[i]->bytes());
    tensors[i] =
        library_.aclCreateTensor(&kCount, 1, ACL_INT32, &kStride, 0, ACL_FORMAT_ND, &kCount, 1, memory[i]->data());
  }
  int64_t five = 5, one = 1;
  aclScalar* scalars[] = {library_.aclCreateScalar(&five, ACL_INT64), library_.aclCreateScalar(&one, ACL_INT64)};
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(first(tensors[0], scalars[0], scalars[1], tensors[0], &bytes, &executor), ACLNN_SUCCESS);
  const auto workspace = device_->allocate(std::max<uint64_t>(bytes, 64));
  const int repeatable = library_.aclSetAclOpExecutorRepeatable(executor);
  int codes[] = {second(workspace->data(), bytes, executor, stream), -1, -1, -1};
  if (repeatable == ACLNN_SUCCESS) {
    // The descriptors that the first phase was given: it is they that change.
    codes[1] = library_.aclSetTensorAddr(executor, 0, tensors[0], memory[1]->data());
    codes[2] = library_.aclSetTensorAddr(executor, 1, tensors[0], memory[1]->data());
    codes[3] = second(workspace->data(), bytes, executor, stream);
  }
  EXPECT_EQ(library_.aclrtSynchronizeStreamWithTimeout(stream, 20000), ACL_SUCCESS);
  int32_t values[2] = {};
  for (int i = 0; i < 2; ++i) device_->copy(&values[i], memory[i]->data(), sizeof(int32_t), CopyKind::kDeviceToHost);
  answer(fmt::format("a repeated executor: made repeatable {}, run {}, addresses {} {}, run again {}, values {} {}",
                     repeatable, codes[0], codes[1], codes[2], codes[3], values[0], values[1]));
  EXPECT_EQ(values[0], 5);
  if (repeatable == ACLNN_SUCCESS) {
    EXPECT_EQ(values[1], 5);
    library_.aclDestroyAclOpExecutor(executor);
  }
  for (const aclTensor* tensor : tensors) library_.aclDestroyTensor(tensor);
  for (const aclScalar* scalar : scalars) library_.aclDestroyScalar(scalar);
}

/// What the emulator's timing model estimates.
TEST_F(OpenQuestions, WhatLaunchesAndReplaysCostTheHostAndTheStream) {
  if (lacks(Feature::kGraph)) GTEST_SKIP() << library_.features().why_not(Feature::kGraph);
  const int runs = library_.is_emulator() ? 20 : 1000;
  const auto stream = device_->create_stream();
  const auto data = device_->allocate(64 * sizeof(int32_t));
  device_->fill(data->data(), 0, data->bytes());
  const auto add = [&] { kernels_->add(*stream, data->data(), 64, 1); };
  const auto timed = [&](const char* what, int count, const auto& work) {
    work();
    stream->synchronize();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) work();
    const double submitted = microseconds_since(start);
    stream->synchronize();
    answer(fmt::format("{}: {:.2f} us of the host, {:.2f} us until it is done", what, submitted / count,
                       microseconds_since(start) / count));
  };
  timed("a small operator, eagerly", runs, add);
  constexpr int kOperators = 100;
  stream->begin_capture(CaptureMode::kThreadLocal);
  for (int i = 0; i < kOperators; ++i) add();
  const auto graph = stream->end_capture();
  timed("a replay of 100 small operators", runs / 10, [&] { graph->replay(*stream); });
  const size_t bytes = library_.is_emulator() ? size_t{1} << 20 : size_t{256} << 20;
  const auto from = device_->allocate(bytes);
  const auto to = device_->allocate(bytes);
  device_->fill(from->data(), 0, bytes);
  timed(fmt::format("a copy of {} MiB on the device", bytes >> 20).c_str(), 4,
        [&] { stream->copy_async(to->data(), from->data(), bytes, CopyKind::kDeviceToDevice); });
  const auto host = device_->allocate(bytes, MemoryKind::kPinnedHost);
  timed(fmt::format("a copy of {} MiB from the host", bytes >> 20).c_str(), 4,
        [&] { stream->copy_async(to->data(), host->data(), bytes, CopyKind::kHostToDevice); });
  EXPECT_GT(graph->statistics().launches, 0);
}

}  // namespace
}  // namespace reprise::device::ascend

#endif  // REPRISE_EMULATOR_DIR
