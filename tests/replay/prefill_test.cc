// Prompt steps of fixed sizes, replayed from captured graphs.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/log.h"
#include "harness/step_harness.h"

namespace reprise::replay {
namespace {

StepHarness::Options prefill_options(Mode mode, int threads = 1) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.mode = mode;
  options.dtype = DType::kBF16;
  options.threads = threads;
  options.max_running = 3;
  options.max_prefill_tokens = 64;
  return options;
}

std::vector<int32_t> tokens_of(int32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 512);
  return tokens;
}

int64_t prefills(StepHarness& harness, StepReason reason) {
  return harness.runner().counters().steps(StepKind::kPrefill, reason);
}

struct PrefillOutcome {
  Rows logits;
  std::vector<std::byte> kv;
  friend bool operator==(const PrefillOutcome&, const PrefillOutcome&) = default;
};

/// Chunks of these sizes in turn, so that each size is met with many contexts; a decode step after every third.
PrefillOutcome run_prefill(StepHarness& harness, const std::vector<int32_t>& chunks) {
  PrefillOutcome outcome;
  uint32_t seed = 0;
  for (int32_t round = 0; round < 3; ++round) {
    for (const int32_t chunk : chunks) {
      // A second sequence makes sure that what a replay reads is not what the last one left.
      for (const int32_t sequence : {1, 0}) {
        for (std::vector<float>& row : harness.feed(sequence, tokens_of(chunk, ++seed))) {
          outcome.logits.push_back(std::move(row));
        }
      }
    }
    outcome.logits.push_back(harness.decode({0, 1}, {round, 7})[1]);
  }
  outcome.kv = harness.kv_contents(0);
  return outcome;
}

}  // namespace

class ReplayedPrefill : public ::testing::TestWithParam<Mode> {};

TEST_P(ReplayedPrefill, GivesEagersBitsForEverySizeContextAndNumberOfThreads) {
  StepHarness eager(prefill_options(Mode::kEager));
  const std::vector<int32_t> chunks = {16, 5, 33, 2};
  const PrefillOutcome expected = run_prefill(eager, chunks);
  for (const int threads : {1, 2, 5}) {
    for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
      for (const bool discrete : {false, true}) {
        StepHarness::Options options = prefill_options(GetParam(), threads);
        options.prefill_graph_tokens = {33, 2, 16};
        options.update_order = order;
        options.discrete = discrete;
        StepHarness harness(options);
        EXPECT_EQ(run_prefill(harness, chunks), expected) << threads << " threads, order " << static_cast<int>(order);
        EXPECT_EQ(prefills(harness, StepReason::kReplayed), 3 * 2 * 3);
        EXPECT_EQ(prefills(harness, StepReason::kPrefill), 3 * 2) << "the size that is not captured";
      }
    }
  }
}

TEST_P(ReplayedPrefill, CapturesEachSizeOnceAndThenDispatchesOnlyWhatSplits) {
  StepHarness::Options options = prefill_options(GetParam());
  options.prefill_graph_tokens = {16, 32};
  StepHarness harness(options);
  harness.runner().capture_prefill();
  const CaptureReport& report = harness.runner().capture_report();
  ASSERT_EQ(report.buckets.size(), 2u);
  for (const CaptureReport::Bucket& bucket : report.buckets) {
    EXPECT_EQ(bucket.kind, StepKind::kPrefill);
    EXPECT_EQ(bucket.failure, "");
    EXPECT_EQ(bucket.pieces, GetParam() == Mode::kPiecewise ? 3 : 1);
    EXPECT_GT(bucket.bytes, 0u);
  }
  EXPECT_GT(report.arena_bytes, 0u);
  const device::DeviceCounters before = harness.device().counters();
  const int64_t calls = harness.runner().method_calls();
  const int64_t dispatches = harness.runner().operator_dispatches();
  for (const int32_t size : {16, 32, 16, 32, 16}) harness.feed(0, tokens_of(size, 1));
  const device::DeviceCounters after = harness.device().counters();
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(harness.runner().method_calls(), calls);
  // Two layers: attention is updated, or runs between the pieces.
  const bool split = GetParam() == Mode::kPiecewise;
  EXPECT_EQ(harness.runner().operator_dispatches() - dispatches, split ? 5 * 2 : 0);
  EXPECT_EQ(after.task_updates - before.task_updates, split ? 0 : 5 * 2);
  EXPECT_EQ(prefills(harness, StepReason::kReplayed), 5);
}

TEST_P(ReplayedPrefill, StepsOfSeveralSequencesOrOfAllLogitsRunNodeByNode) {
  StepHarness::Options options = prefill_options(GetParam());
  options.prefill_graph_tokens = {4, 8};
  StepHarness harness(options);
  StepHarness eager(prefill_options(Mode::kEager));
  for (StepHarness* each : {&harness, &eager}) each->feed(2, tokens_of(8, 9));
  const std::vector<std::pair<int32_t, std::vector<int32_t>>> two = {{0, tokens_of(4, 1)}, {1, tokens_of(4, 2)}};
  EXPECT_EQ(harness.step(two), eager.step(two));
  EXPECT_EQ(harness.feed(0, tokens_of(8, 3), 0, true), eager.feed(0, tokens_of(8, 3), 0, true));
  EXPECT_EQ(prefills(harness, StepReason::kReplayed), 1);
  EXPECT_EQ(prefills(harness, StepReason::kPrefill), 2);
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplayedPrefill, ::testing::Values(Mode::kFull, Mode::kPiecewise),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(ReplayedPrefill, TracingAgainAfterEveryReplayGivesTheSameGraph) {
  StepHarness::Options options = prefill_options(Mode::kFull);
  options.prefill_graph_tokens = {8};
  options.retrace_every = 1;
  StepHarness harness(options);
  for (int step = 0; step < 3; ++step) harness.feed(0, tokens_of(8, 1));
  EXPECT_EQ(prefills(harness, StepReason::kReplayed), 3);
}

namespace {

/// The model's linear kernel, which fails while it is captured for eight rows.
ops::OpKernel unbroken_linear;
void linear_that_fails_to_capture_eight_rows(const ops::OpCall& call) {
  const bool capturing = call.stream->capture_info().status == device::CaptureStatus::kActive;
  if (capturing && call.inputs[0].size(0) == 8) throw Error(ErrorCode::kOutOfMemory, "no memory for eight rows");
  unbroken_linear.run(call);
}

}  // namespace

TEST(ReplayedPrefill, ASizeThatFailsToCaptureCostsOnlyItself) {
  StepHarness::Options options = prefill_options(Mode::kFull);
  options.prefill_graph_tokens = {8, 16};
  options.prepare = [](ops::Registry& registry) {
    ops::OpDef& linear = registry.get("linear");
    unbroken_linear = *linear.kernel("cpu");
    ops::OpKernel failing = unbroken_linear;
    failing.run = linear_that_fails_to_capture_eight_rows;
    linear.set_kernel("cpu", failing);
  };
  StepHarness harness(options);
  StepHarness eager(prefill_options(Mode::kEager));
  set_log_level(LogLevel::kOff);
  for (const int32_t size : {8, 16, 8})
    EXPECT_EQ(harness.feed(0, tokens_of(size, 4)), eager.feed(0, tokens_of(size, 4)));
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(prefills(harness, StepReason::kCaptureFailed), 2);
  EXPECT_EQ(prefills(harness, StepReason::kReplayed), 1);
  EXPECT_EQ(harness.runner().capture_report().buckets.size(), 2u) << "the failure is not tried again";
}

TEST(ReplayedPrefill, SizesBehindTheCaptureLimitRunNodeByNodeCounted) {
  StepHarness::Options options = prefill_options(Mode::kFull);
  options.prefill_graph_tokens = {8, 16};
  options.capture_limit = 1;
  StepHarness harness(options);
  StepHarness eager(prefill_options(Mode::kEager));
  set_log_level(LogLevel::kOff);
  harness.runner().capture_prefill();
  for (const int32_t size : {16, 8, 16})
    EXPECT_EQ(harness.feed(0, tokens_of(size, 4)), eager.feed(0, tokens_of(size, 4)));
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(prefills(harness, StepReason::kCaptureLimit), 2);
  EXPECT_EQ(prefills(harness, StepReason::kReplayed), 1);
}

TEST(ReplayedPrefill, ModesWithoutCaptureHaveNoSizes) {
  StepHarness::Options options = prefill_options(Mode::kForceEager);
  options.prefill_graph_tokens = {8};
  StepHarness harness(options);
  EXPECT_TRUE(harness.runner().prefill_sizes().empty());
  harness.feed(0, tokens_of(8, 1));
  EXPECT_EQ(prefills(harness, StepReason::kPrefill), 1);
}

}  // namespace reprise::replay
