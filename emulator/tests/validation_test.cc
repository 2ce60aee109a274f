// The validation layer: for each kind of misuse a program that commits it and a similar one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_runtime.h"
#include "emulator/kernel.h"
#include "emulator/tests/validation_support.h"

namespace reprise::emulator {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Words {
  int32_t* to = nullptr;
  const int32_t* from = nullptr;
};

bool run_copy(const void* arguments, size_t /*bytes*/, uint32_t /*blocks*/) {
  const auto* words = static_cast<const Words*>(arguments);
  auto* to = static_cast<int32_t*>(emulatorHostAddress(words->to, 4));
  const auto* from = static_cast<const int32_t*>(emulatorHostAddress(words->from, 4));
  if (!to || !from) return false;
  *to = *from;
  return true;
}

void visit_copy(const void* arguments, size_t /*bytes*/, EmulatorMemoryVisitor visit, void* context) {
  const auto* words = static_cast<const Words*>(arguments);
  visit(context, words->from, 4, false);
  visit(context, words->to, 4, true);
}

const Kernel kCopy{.name = "copy", .type = KernelType::kVector, .run = run_copy, .memory = visit_copy};
// The same without a list of its memory.
const Kernel kOpaqueCopy{.name = "opaque_copy", .type = KernelType::kVector, .run = run_copy};

class Validation : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("acl_validation." + std::to_string(getpid()));
    std::filesystem::remove(path_);
    setenv("REPRISE_ACL_VALIDATE", path_.c_str(), 1);
    ACL_OK(aclInit(nullptr));
    ACL_OK(aclrtSetDevice(0));
    ACL_OK(aclrtCreateStream(&stream_));
    ACL_OK(aclrtCreateStream(&other_));
    words_ = allocate(1024);
    gate_ = reinterpret_cast<uint64_t*>(allocate(64));
  }

  // Gives back what SetUp() took, ends the interface and answers what the layer wrote.
  std::string end() {
    ACL_EXPECT_OK(aclrtDestroyStream(stream_));
    ACL_EXPECT_OK(aclrtDestroyStream(other_));
    ACL_EXPECT_OK(aclrtFree(words_));
    ACL_EXPECT_OK(aclrtFree(gate_));
    return finalize();
  }
  std::string finalize() {
    ACL_EXPECT_OK(aclrtResetDevice(0));
    ACL_EXPECT_OK(aclFinalize());
    unsetenv("REPRISE_ACL_VALIDATE");
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    std::filesystem::remove(path_);
    return text.str();
  }

  static int32_t* allocate(size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(address, bytes, 0, bytes), ACL_SUCCESS);
    return static_cast<int32_t*>(address);
  }
  static void copy(int32_t* to, const int32_t* from, aclrtStream stream, const Kernel& kernel = kCopy) {
    const Words words{to, from};
    ACL_EXPECT_OK(aclrtLaunchKernelV2(const_cast<Kernel*>(&kernel), 1, &words, sizeof words, nullptr, stream));
  }
  static void begin(aclrtStream stream) {
    ACL_EXPECT_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  }
  static aclmdlRI finish(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    ACL_EXPECT_OK(aclmdlRICaptureEnd(stream, &graph));
    return graph;
  }
  static aclmdlRI capture_copy(int32_t* to, const int32_t* from, aclrtStream stream, const Kernel& kernel = kCopy) {
    begin(stream);
    copy(to, from, stream, kernel);
    return finish(stream);
  }
  static void replay(aclmdlRI graph, aclrtStream stream) { ACL_EXPECT_OK(aclmdlRIExecuteAsync(graph, stream)); }
  static void sync(aclrtStream stream) { ACL_EXPECT_OK(aclrtSynchronizeStreamWithTimeout(stream, 5000)); }
  // `waiting` goes on only behind what `first` has now.
  static void order(aclrtStream first, aclrtStream waiting, aclrtEvent event) {
    ACL_EXPECT_OK(aclrtRecordEvent(event, first));
    ACL_EXPECT_OK(aclrtStreamWaitEvent(waiting, event));
  }
  void block(aclrtStream stream) { ACL_EXPECT_OK(aclrtValueWait(gate_, 1, ACL_VALUE_WAIT_EQ, stream)); }
  void unblock() {
    aclrtStream opener = nullptr;
    ACL_EXPECT_OK(aclrtCreateStream(&opener));
    ACL_EXPECT_OK(aclrtValueWrite(gate_, 1, 0, opener));
    ACL_EXPECT_OK(aclrtDestroyStream(opener));
  }

  std::filesystem::path path_;
  aclrtStream stream_ = nullptr;
  aclrtStream other_ = nullptr;
  int32_t* words_ = nullptr;
  uint64_t* gate_ = nullptr;
};

TEST_F(Validation, IsSilentAboutAPlainProgram) {
  aclmdlRI graph = capture_copy(words_, words_ + 1, stream_);
  replay(graph, stream_);
  replay(graph, stream_);
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsAReplayOfFreedMemory) {
  for (const Kernel* kernel : {&kCopy, &kOpaqueCopy}) {
    int32_t* input = allocate(64);
    aclmdlRI graph = capture_copy(words_, input, stream_, *kernel);
    replay(graph, stream_);
    sync(stream_);
    ACL_EXPECT_OK(aclrtFree(input));
    replay(graph, stream_);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 5000), ACL_ERROR_RT_AICORE_EXCEPTION);
    ACL_EXPECT_OK(aclmdlRIDestroy(graph));
    const std::string text = finalize();
    expect_report(text, "freed-memory-replayed", {"replayed", "freed", "captured", "allocated"});
    if (kernel == &kCopy) SetUp();
  }
}

TEST_F(Validation, KnowsNewMemoryAtAnOldAddress) {
  // What lies there now is not what the graph was captured with, though it can be read.
  int32_t* input = allocate(64);
  aclmdlRI graph = capture_copy(words_, input, stream_);
  ACL_EXPECT_OK(aclrtFree(input));
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  graph = capture_copy(words_, words_ + 1, stream_);
  replay(graph, stream_);
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  EXPECT_THAT(end(), Not(HasSubstr("freed-memory-replayed")));
}

TEST_F(Validation, ReportsMemoryFreedBeforeItsGraph) {
  int32_t* workspace = allocate(64);
  aclmdlRI graph = capture_copy(workspace, words_, stream_);
  ACL_EXPECT_OK(aclrtFree(workspace));
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  expect_report(end(), "freed-before-graph", {"freed", "captured", "allocated"});
}

TEST_F(Validation, LetsMemoryGoBehindItsGraph) {
  int32_t* workspace = allocate(64);
  int32_t* unused = allocate(64);
  aclmdlRI graph = capture_copy(workspace, words_, stream_);
  ACL_EXPECT_OK(aclrtFree(unused));
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  ACL_EXPECT_OK(aclrtFree(workspace));
  EXPECT_EQ(end(), kClean);
}

// A graph whose group holds one copy; with a gate it waits for the word before the group.
aclmdlRI capture_group(aclrtStream stream, int32_t* words, uint64_t* gate, aclrtTaskGrp* group) {
  ACL_EXPECT_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  if (gate) {
    ACL_EXPECT_OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, stream));
    ACL_EXPECT_OK(aclrtValueWrite(gate, 0, 0, stream));
  }
  ACL_EXPECT_OK(aclmdlRICaptureTaskGrpBegin(stream));
  const Words arguments{words, words + 1};
  ACL_EXPECT_OK(aclrtLaunchKernelV2(const_cast<Kernel*>(&kCopy), 1, &arguments, sizeof arguments, nullptr, stream));
  ACL_EXPECT_OK(aclmdlRICaptureTaskGrpEnd(stream, group));
  aclmdlRI graph = nullptr;
  ACL_EXPECT_OK(aclmdlRICaptureEnd(stream, &graph));
  return graph;
}

void update_group(aclrtStream stream, int32_t* words, aclrtTaskGrp group) {
  ACL_EXPECT_OK(aclmdlRICaptureTaskUpdateBegin(stream, group));
  const Words arguments{words, words + 2};
  ACL_EXPECT_OK(aclrtLaunchKernelV2(const_cast<Kernel*>(&kCopy), 1, &arguments, sizeof arguments, nullptr, stream));
  ACL_EXPECT_OK(aclmdlRICaptureTaskUpdateEnd(stream));
}

TEST_F(Validation, ReportsAReplayThatDoesNotWaitForItsUpdate) {
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = capture_group(stream_, words_, nullptr, &group);
  update_group(other_, words_, group);
  replay(graph, stream_);
  sync(stream_);
  sync(other_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  expect_report(end(), "update-unordered", {"updated", "replayed"});
}

TEST_F(Validation, ReportsAnUpdateThatDoesNotWaitForTheReplay) {
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = capture_group(stream_, words_, nullptr, &group);
  replay(graph, stream_);
  // Nothing tells the host that the replay is over, however long ago that may be.
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  while (status != ACL_STREAM_STATUS_COMPLETE) ACL_EXPECT_OK(aclrtStreamQuery(other_, &status));
  update_group(other_, words_, group);
  sync(other_);
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  expect_report(end(), "update-unordered", {"updated", "replayed"});
}

TEST_F(Validation, KnowsBothOrdersOfUpdatesAndReplays) {
  aclrtTaskGrp group = nullptr;
  aclrtTaskGrp gated_group = nullptr;
  aclrtEvent event = nullptr;
  ACL_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  aclmdlRI graph = capture_group(stream_, words_, nullptr, &group);
  aclmdlRI gated = capture_group(stream_, words_, gate_, &gated_group);
  for (int i = 0; i < 3; ++i) {
    update_group(other_, words_, group);
    order(other_, stream_, event);
    replay(graph, stream_);
    sync(stream_);
    replay(gated, stream_);
    update_group(other_, words_, gated_group);
    ACL_EXPECT_OK(aclrtValueWrite(gate_, 1, 0, other_));
    sync(stream_);
  }
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  ACL_EXPECT_OK(aclmdlRIDestroy(gated));
  ACL_EXPECT_OK(aclrtDestroyEvent(event));
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsGraphsOfOnePoolAtOnce) {
  aclmdlRI first = capture_copy(words_, words_ + 1, stream_);
  aclmdlRI second = capture_copy(words_, words_ + 2, stream_);
  replay(first, stream_);
  replay(second, other_);
  sync(stream_);
  sync(other_);
  ACL_EXPECT_OK(aclmdlRIDestroy(first));
  ACL_EXPECT_OK(aclmdlRIDestroy(second));
  const std::string text = end();
  const size_t begin = text.find("pool-shared");
  ASSERT_NE(begin, std::string::npos) << text;
  EXPECT_THAT(text.substr(begin),
              ContainsRegex("\n  replayed: [^\n]*emulator_test\\([^\n]*\n  replayed: [^\n]*emulator_test"));
}

TEST_F(Validation, LetsGraphsShareMemoryInTurnAndReadItAtOnce) {
  aclrtEvent event = nullptr;
  ACL_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  aclmdlRI first = capture_copy(words_, words_ + 1, stream_);
  aclmdlRI second = capture_copy(words_, words_ + 1, stream_);
  aclmdlRI reader = capture_copy(words_ + 3, words_ + 1, stream_);
  // In turn on one stream, and over two by an event.
  replay(first, stream_);
  replay(second, stream_);
  order(stream_, other_, event);
  replay(first, other_);
  // At once, and only reading the same word.
  replay(reader, stream_);
  sync(stream_);
  sync(other_);
  replay(second, stream_);
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(first));
  ACL_EXPECT_OK(aclmdlRIDestroy(second));
  ACL_EXPECT_OK(aclmdlRIDestroy(reader));
  ACL_EXPECT_OK(aclrtDestroyEvent(event));
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsAWordThatIsSetAgainBeforeItsWait) {
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = capture_group(stream_, words_, gate_, &group);
  ACL_EXPECT_OK(aclrtValueWrite(gate_, 1, 0, other_));
  ACL_EXPECT_OK(aclrtValueWrite(gate_, 1, 0, other_));
  sync(other_);
  replay(graph, stream_);
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  expect_report(end(), "event-reused", {"written", "written before"});
}

TEST_F(Validation, ReportsAnExternalEventThatIsRecordedTwice) {
  aclrtEvent event = nullptr;
  ACL_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
  ACL_EXPECT_OK(aclrtRecordEvent(event, stream_));
  ACL_EXPECT_OK(aclrtStreamWaitEvent(stream_, event));
  ACL_EXPECT_OK(aclrtResetEvent(event, stream_));
  ACL_EXPECT_OK(aclrtRecordEvent(event, stream_));
  ACL_EXPECT_OK(aclrtRecordEvent(event, stream_));
  sync(stream_);
  ACL_EXPECT_OK(aclrtDestroyEvent(event));
  expect_report(end(), "event-reused", {"recorded", "recorded before"});
}

TEST_F(Validation, ReportsAnOldEventThatIsRecordedUnderAWait) {
  aclrtEvent event = nullptr;
  ACL_OK(aclrtCreateEvent(&event));
  block(stream_);
  ACL_EXPECT_OK(aclrtRecordEvent(event, stream_));
  ACL_EXPECT_OK(aclrtStreamWaitEvent(other_, event));
  ACL_EXPECT_OK(aclrtRecordEvent(event, stream_));
  unblock();
  sync(stream_);
  sync(other_);
  ACL_EXPECT_OK(aclrtDestroyEvent(event));
  expect_report(end(), "event-reused", {"recorded", "recorded before"});
}

TEST_F(Validation, LetsEventsBeUsedAgainBehindTheirWaits) {
  aclrtEvent old = nullptr;
  aclrtEvent external = nullptr;
  aclrtEvent ex = nullptr;
  ACL_OK(aclrtCreateEvent(&old));
  ACL_OK(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL));
  ACL_OK(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC));
  for (int i = 0; i < 2; ++i) {
    ACL_EXPECT_OK(aclrtRecordEvent(external, stream_));
    ACL_EXPECT_OK(aclrtStreamWaitEvent(other_, external));
    ACL_EXPECT_OK(aclrtResetEvent(external, other_));
    order(stream_, other_, old);
    sync(other_);
  }
  // Each record of an event of this kind is one of its own.
  block(stream_);
  order(stream_, other_, ex);
  order(stream_, other_, ex);
  unblock();
  sync(other_);
  for (aclrtEvent event : {old, external, ex}) ACL_EXPECT_OK(aclrtDestroyEvent(event));
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsHostMemoryThatChangesUnderACopy) {
  int32_t* pinned = nullptr;
  ACL_OK(aclrtMallocHost(reinterpret_cast<void**>(&pinned), 64));
  *pinned = 1;
  block(stream_);
  ACL_EXPECT_OK(aclrtMemcpyAsync(words_, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  *pinned = 2;
  unblock();
  sync(stream_);
  ACL_EXPECT_OK(aclrtFreeHost(pinned));
  expect_report(end(), "host-memory-changed", {"submitted"});
}

TEST_F(Validation, ReportsHostMemoryThatIsFreedUnderACopy) {
  int32_t* pinned = nullptr;
  ACL_OK(aclrtMallocHost(reinterpret_cast<void**>(&pinned), 64));
  block(stream_);
  ACL_EXPECT_OK(aclrtMemcpyAsync(words_, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  ACL_EXPECT_OK(aclrtFreeHost(pinned));
  ACL_EXPECT_OK(aclrtStreamAbort(stream_));
  expect_report(end(), "host-memory-changed", {"freed", "submitted"});
}

TEST_F(Validation, LetsHostMemoryChangeBetweenCopies) {
  int32_t* pinned = nullptr;
  ACL_OK(aclrtMallocHost(reinterpret_cast<void**>(&pinned), 64));
  begin(stream_);
  ACL_EXPECT_OK(aclrtMemcpyAsync(words_, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  aclmdlRI graph = finish(stream_);
  for (int32_t value = 0; value < 3; ++value) {
    *pinned = value;
    replay(graph, stream_);
    sync(stream_);
    *pinned = value + 10;
    ACL_EXPECT_OK(aclrtMemcpyAsync(words_, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
    sync(stream_);
  }
  // A copy to the host's memory before one from there is the program's order, not a change under it.
  ACL_EXPECT_OK(aclrtMemcpyAsync(pinned, 4, words_ + 1, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream_));
  ACL_EXPECT_OK(aclrtMemcpyAsync(words_ + 2, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  sync(stream_);
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  ACL_EXPECT_OK(aclrtFreeHost(pinned));
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsWhatIsDestroyedTwice) {
  aclrtEvent event = nullptr;
  aclrtStream stream = nullptr;
  ACL_OK(aclrtCreateEvent(&event));
  ACL_OK(aclrtCreateStream(&stream));
  int32_t* memory = allocate(64);
  aclmdlRI graph = capture_copy(words_, words_ + 1, stream_);
  ACL_EXPECT_OK(aclrtDestroyEvent(event));
  ACL_EXPECT_OK(aclrtDestroyStream(stream));
  ACL_EXPECT_OK(aclrtFree(memory));
  ACL_EXPECT_OK(aclmdlRIDestroy(graph));
  EXPECT_NE(aclrtDestroyEvent(event), ACL_SUCCESS);
  EXPECT_NE(aclrtDestroyStream(stream), ACL_SUCCESS);
  EXPECT_NE(aclrtFree(memory), ACL_SUCCESS);
  EXPECT_NE(aclmdlRIDestroy(graph), ACL_SUCCESS);
  const std::string text = end();
  for (const char* what : {"the event", "the stream", "the device memory", "the graph"}) {
    expect_report(text, std::string("destroyed-twice: ") + what, {"destroyed again", "destroyed first", "created"});
  }
}

TEST_F(Validation, IsSilentAboutADestroyOfWhatNeverWas) {
  int nothing = 0;
  EXPECT_NE(aclrtDestroyEvent(&nothing), ACL_SUCCESS);
  EXPECT_NE(aclrtFree(&nothing), ACL_SUCCESS);
  EXPECT_EQ(end(), kClean);
}

TEST_F(Validation, ReportsWhatIsLeftAtTheEnd) {
  aclrtEvent event = nullptr;
  ACL_OK(aclrtCreateEvent(&event));
  for (int i = 0; i < 3; ++i) allocate(100);
  void* pinned = nullptr;
  ACL_OK(aclrtMallocHost(&pinned, 64));
  begin(stream_);
  (void)finish(stream_);
  const std::string text = end();
  expect_report(text, "leak: event", {"created", "ended"});
  expect_report(text, "leak: graph", {"created", "ended"});
  expect_report(text, "leak: pinned host memory", {"created", "ended"});
  EXPECT_THAT(text, ContainsRegex("leak: device memory [^\n]* and 2 more of the same place, 300 bytes together"));
  EXPECT_THAT(text, HasSubstr("acl validation: 4 problems\n"));
}

TEST_F(Validation, RefusesAFileThatCannotBeWritten) {
  (void)end();
  setenv("REPRISE_ACL_VALIDATE", "/no/such/folder/report", 1);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(aclGetRecentErrMsg(), HasSubstr("/no/such/folder/report"));
  unsetenv("REPRISE_ACL_VALIDATE");
}

}  // namespace
}  // namespace reprise::emulator
