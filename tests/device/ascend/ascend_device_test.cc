// Ascend's own rules, over the emulator: memory of captures, dumps, what is told of the device.
#ifdef REPRISE_EMULATOR_DIR
#include "device/ascend/ascend_device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "device/ascend/device_report.h"
#include "device/ascend/test_kernels.h"
#include "device/device_lost.h"

namespace reprise::device::ascend {
namespace {

using testing::HasSubstr;

TEST(EmulatedAscend, MemoryReleasedDuringACaptureStaysUntilTheGraphIsGone) {
  const auto device = create_ascend_device(emulator_options());
  const auto kernels = make_test_kernels();
  const auto stream = device->create_stream();
  auto temporary = device->allocate(4000);
  void* address = temporary->data();
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->fill_async(address, 0, 4000);
  kernels->add(*stream, address, 1000, 1);
  temporary.reset();
  auto graph = stream->end_capture();
  const auto meanwhile = device->allocate(4000);
  EXPECT_NE(meanwhile->data(), address);
  graph->replay(*stream);
  stream->synchronize();
  graph.reset();
  EXPECT_EQ(device->allocate(4000)->data(), address);
}

TEST(EmulatedAscend, DumpsHoldTheHostsRecordAndTheRuntimes) {
  const auto device = create_ascend_device(emulator_options());
  const auto kernels = make_test_kernels();
  const auto stream = device->create_stream({.priority = 0, .name = "main"});
  const auto data = device->allocate(400);
  stream->begin_capture(CaptureMode::kThreadLocal);
  kernels->add(*stream, data->data(), 100, 1);
  const auto graph = stream->end_capture();
  EXPECT_THAT(graph->to_text(), HasSubstr("0 main launch add.i32"));
  EXPECT_THAT(graph->to_json(), HasSubstr(R"("kernel":"add.i32")"));
  EXPECT_THAT(graph->to_json(), HasSubstr(R"("runtime":")"));
}

TEST(EmulatedAscend, TheReportTellsWhatTheDeviceCanDo) {
  const AscendReport report = report_ascend(emulator_options().library);
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.emulator);
  ASSERT_FALSE(report.devices.empty());
  const AscendReport::DeviceLine& line = report.devices[0];
  EXPECT_EQ(line.failure, "");
  EXPECT_THAT(line.name, HasSubstr("Ascend"));
  EXPECT_GT(line.cube_cores, 0);
  EXPECT_GT(line.streams, 0);
  EXPECT_EQ(line.features.size(), kFeatureCount);
}

TEST(EmulatedAscend, TellsOnceWhyThereIsNoMemory) {
  const auto device = create_ascend_device(emulator_options());
  device->allocate(size_t{40} << 20).reset();  // is given back before the second attempt
  std::string told;
  try {
    device->allocate(size_t{1} << 50);
  } catch (const Error& error) {
    told = error.message();
  }
  const size_t first = told.find("no device memory for");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("no device memory for", first + 1), std::string::npos) << told;
}

TEST(EmulatedAscend, WarnsOfLaunchesThatBlock) {
  const auto warning = [](const char* value) {
    ::setenv("ASCEND_LAUNCH_BLOCKING", value, 1);
    testing::internal::CaptureStderr();
    (void)create_ascend_device(emulator_options());
    ::unsetenv("ASCEND_LAUNCH_BLOCKING");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning("1"), testing::AllOf(HasSubstr("ASCEND_LAUNCH_BLOCKING=1"), HasSubstr("unset it")));
  EXPECT_THAT(warning("0"), testing::Not(HasSubstr("ASCEND_LAUNCH_BLOCKING")));
}

/// Settings of the emulator for the devices of one test, and what its validation layer says when the last has gone.
class WatchedEmulator {
 public:
  explicit WatchedEmulator(const std::string& fault = "") : directory_(testing::TempDir()) {
    ::setenv("REPRISE_ACL_VALIDATE", validation_file().c_str(), 1);
    ::setenv("REPRISE_ACL_FAULT_COUNT", count_file().c_str(), 1);
    if (!fault.empty()) ::setenv("REPRISE_ACL_FAULT", fault.c_str(), 1);
    std::filesystem::remove(validation_file());
  }
  ~WatchedEmulator() {
    for (const char* name : {"REPRISE_ACL_VALIDATE", "REPRISE_ACL_FAULT_COUNT", "REPRISE_ACL_FAULT"}) ::unsetenv(name);
  }
  WatchedEmulator(const WatchedEmulator&) = delete;
  WatchedEmulator& operator=(const WatchedEmulator&) = delete;

  std::string report() const { return read(validation_file()); }
  /// How many calls of a kind there were.
  int calls(const std::string& kind) const {
    const std::string counts = read(count_file());
    return std::stoi(counts.substr(counts.find(fmt::format("\"{}\": ", kind)) + kind.size() + 4));
  }

 private:
  std::string validation_file() const { return directory_ + "/ascend_validation"; }
  std::string count_file() const { return directory_ + "/ascend_counts"; }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string directory_;
};

TEST(EmulatedAscend, ACaptureThatAnotherThreadEndsLeavesNothing) {
  const WatchedEmulator emulator;
  {
    const auto device = create_ascend_device(emulator_options());
    const auto stream = device->create_stream();
    stream->begin_capture(CaptureMode::kThreadLocal);
    std::thread([&] { EXPECT_THROW(stream->end_capture(), Error); }).join();
    // One that another thread gives up.
    auto given_up = device->create_stream();
    given_up->begin_capture(CaptureMode::kThreadLocal);
    std::thread([&] { given_up.reset(); }).join();
  }
  EXPECT_EQ(emulator.report(), "acl validation: 0 problems\n");
}

/// Replays a graph that waits for an event, if `replays`; closing it has to wait until the event has come.
void replay_behind_a_gate(bool replays) {
  const auto device = create_ascend_device(emulator_options());
  const auto stream = device->create_stream();
  const auto other = device->create_stream();
  const auto gate = device->create_event(EventKind::kExternal);
  stream->begin_capture(CaptureMode::kThreadLocal);
  stream->wait(*gate);
  const auto graph = stream->end_capture();
  if (!replays) return;
  graph->replay(*stream);
  try {
    graph->close(20);
    ADD_FAILURE() << "a graph was closed that runs";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kGraphRunning);
  }
  EXPECT_THROW(graph->replay(*other), Error) << "nothing tells when the first replay has ended";
  other->record(*gate);
  stream->synchronize();
  graph->close(1000);
}

TEST(EmulatedAscend, AReplayThatCannotBeMarkedIsFollowedAllTheSame) {
  int before = 0;
  {
    const WatchedEmulator emulator;
    replay_behind_a_gate(false);
    before = emulator.calls("event");
  }
  // A replay records the event that was made with the graph.
  const WatchedEmulator emulator(fmt::format("event:{}", before + 1));
  replay_behind_a_gate(true);
  EXPECT_EQ(emulator.report(), "acl validation: 0 problems\n");
}

std::string wait_that_is_given_up(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const DeviceLost& error) {
    return error.what();
  }
  return "nothing is thrown";
}

TEST(EmulatedAscend, AHangTellsWhetherEventsAreWaitedForAndDelaysTheEndOnce) {
  AscendOptions options = emulator_options();
  options.wait_limit_ms = 500;
  {
    const auto device = create_ascend_device(options);
    const auto stream = device->create_stream();
    const auto gate = device->create_event(EventKind::kExternal);
    stream->begin_capture(CaptureMode::kThreadLocal);
    stream->wait(*gate);
    const auto graph = stream->end_capture();
    graph->replay(*stream);
    EXPECT_THAT(wait_that_is_given_up(*stream), HasSubstr("1 external event is waited for and not recorded"));
    device->create_stream()->record(*gate);
  }
  const WatchedEmulator emulator("timeout:1");
  const auto kernels = make_test_kernels();
  auto device = create_ascend_device(options);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(device->create_stream());
  const auto data = device->allocate(400);
  for (const auto& stream : streams) kernels->add(*stream, data->data(), 100, 1);
  EXPECT_THAT(wait_that_is_given_up(*streams[0]), HasSubstr("no external event is waited for"));
  const auto begin = std::chrono::steady_clock::now();
  streams.clear();
  device.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500)) << "five waits take 2500";
}

}  // namespace
}  // namespace reprise::device::ascend
#endif  // REPRISE_EMULATOR_DIR
