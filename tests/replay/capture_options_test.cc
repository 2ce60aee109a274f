// What the options of captures do to a runner: capture_limit, force_recapture, capture_error_mode.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "harness/step_harness.h"
#include "harness/step_runs.h"

namespace reprise::replay {
namespace {

StepHarness::Options capture_options(Mode mode) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.mode = mode;
  options.dtype = DType::kBF16;
  return options;
}

/// What an unsafe call on another thread meets while a linear operator is captured.
ops::OpKernel plain_linear;
device::Device* linear_device = nullptr;
std::vector<std::string> met;
void linear_beside_an_unsafe_call(const ops::OpCall& call) {
  if (call.stream->capture_info().status == device::CaptureStatus::kActive) {
    std::thread([] {
      const std::shared_ptr<Storage> memory = linear_device->allocate(64);
      try {
        linear_device->fill(memory->data(), 0, 64);
        met.emplace_back("done");
      } catch (const Error& error) {
        met.emplace_back(error_code_name(error.code()));
      }
    }).join();
  }
  plain_linear.run(call);
}

}  // namespace

TEST(CaptureOptions, SizesBeyondTheLimitRunEagerlyCountedWithTheSameBits) {
  StepHarness eager(capture_options(Mode::kEager));
  StepHarness::Options options = capture_options(Mode::kFull);
  options.capture_limit = 2;
  StepHarness harness(options);
  prefill(eager, 9);
  prefill(harness, 9);
  harness.runner().capture();
  ASSERT_EQ(harness.runner().capture_report().buckets.size(), 2u) << "the sizes 1 and 2";
  EXPECT_EQ(harness.runner().capture_report().buckets[0].size, 2);
  for (const int32_t rows : {1, 2, 3, 4, 8, 9, 2}) {
    EXPECT_EQ(decode_first(harness, rows, 3), decode_first(eager, rows, 3)) << rows;
    EXPECT_EQ(harness.runner().last_reason(), rows <= 2   ? StepReason::kReplayed
                                              : rows == 9 ? StepReason::kAboveLargestBucket
                                                          : StepReason::kCaptureLimit);
  }
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 3);
  EXPECT_EQ(decodes(harness, StepReason::kCaptureLimit), 3);
  EXPECT_EQ(name_of(StepReason::kCaptureLimit), "capture_limit");
  EXPECT_EQ(harness.runner().capture_report().buckets.size(), 2u);
}

TEST(CaptureOptions, ALimitThatNothingExceedsChangesNothing) {
  StepHarness::Options options = capture_options(Mode::kFull);
  options.capture_limit = 4;
  StepHarness harness(options);
  prefill(harness, 8);
  for (const int32_t rows : {1, 2, 4, 8}) decode_first(harness, rows, 3);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 4);
}

TEST(CaptureOptions, ALimitBelowOneIsRefused) {
  StepHarness::Options options = capture_options(Mode::kFull);
  options.capture_limit = 0;
  EXPECT_THROW(StepHarness{options}, Error);
}

TEST(CaptureOptions, ForceRecaptureCapturesOnEveryStepWithTheSameBits) {
  for (const Mode mode : {Mode::kFull, Mode::kPiecewise}) {
    StepHarness plain(capture_options(mode));
    StepHarness::Options options = capture_options(mode);
    options.force_recapture = true;
    StepHarness harness(options);
    prefill(plain, 8);
    prefill(harness, 8);
    for (const int32_t rows : {1, 2, 2, 8, 3, 4, 4}) {
      EXPECT_EQ(decode_first(harness, rows, 3), decode_first(plain, rows, 3)) << rows;
    }
    const CaptureReport& report = harness.runner().capture_report();
    EXPECT_EQ(report.buckets.size(), 4u);
    EXPECT_EQ(report.recaptures, 3) << "each step but the first of its size";
    EXPECT_EQ(decodes(harness, StepReason::kReplayed), 7);
    EXPECT_EQ(plain.runner().capture_report().recaptures, 0);
  }
}

TEST(CaptureOptions, TheCaptureErrorModeDecidesWhatOtherThreadsMayDoMeanwhile) {
  for (const auto& [mode, expected] : {std::pair(device::CaptureMode::kGlobal, "CaptureForbidden"),
                                       {device::CaptureMode::kThreadLocal, "done"},
                                       {device::CaptureMode::kRelaxed, "done"}}) {
    StepHarness::Options options = capture_options(Mode::kFull);
    options.capture_error_mode = mode;
    options.prepare = [](ops::Registry& registry) {
      ops::OpDef& linear = registry.get("linear");
      plain_linear = *linear.kernel("cpu");
      ops::OpKernel watching = plain_linear;
      watching.run = linear_beside_an_unsafe_call;
      linear.set_kernel("cpu", watching);
    };
    StepHarness harness(options);
    linear_device = &harness.device();
    met.clear();
    harness.runner().capture(std::vector<int32_t>{1});
    ASSERT_FALSE(met.empty());
    for (const std::string& what : met) EXPECT_EQ(what, expected) << name_of(mode);
  }
}

}  // namespace reprise::replay
