// Ascend's own rules, over the emulator: memory of captures, dumps, what is told of the device.
#ifdef REPRISE_EMULATOR_DIR
#include "device/ascend/ascend_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/ascend/device_report.h"
#include "device/ascend/test_kernels.h"

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

}  // namespace
}  // namespace reprise::device::ascend
#endif  // REPRISE_EMULATOR_DIR
