#include "replay/graph_runner.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "harness/step_harness.h"
#include "harness/step_runs.h"

namespace reprise::replay {
namespace {

const std::filesystem::path kSourceRoot = std::filesystem::path(REPRISE_SOURCE_DIR);

StepHarness::Options runner_options(Mode mode = Mode::kFull, const char* model = "tests/data/models/dense") {
  StepHarness::Options options;
  options.model = kSourceRoot / model;
  options.mode = mode;
  options.dtype = DType::kBF16;
  return options;
}

/// The model's linear kernel, which fails while it is captured for four rows.
ops::OpKernel healthy_linear;
void linear_that_fails_to_capture_four_rows(const ops::OpCall& call) {
  const bool capturing = call.stream->capture_info().status == device::CaptureStatus::kActive;
  if (capturing && call.inputs[0].size(0) == 4) throw Error(ErrorCode::kOutOfMemory, "no memory for four rows");
  healthy_linear.run(call);
}

}  // namespace

TEST(GraphRunner, ReplaysEveryDecodeStepAndRunsNothingElse) {
  StepHarness harness(runner_options());
  prefill(harness, 4);
  decode_first(harness, 4, 1);
  const int64_t calls = harness.runner().method_calls();
  const int64_t dispatches = harness.runner().operator_dispatches();
  const device::DeviceCounters before = harness.device().counters();
  for (int step = 0; step < 20; ++step) decode_first(harness, 4, step);
  EXPECT_EQ(harness.runner().method_calls(), calls);
  EXPECT_EQ(harness.runner().operator_dispatches(), dispatches);
  EXPECT_EQ(harness.device().counters().replays, before.replays + 20);
  EXPECT_EQ(harness.device().counters().captures, before.captures);
  EXPECT_EQ(harness.device().counters().task_updates, before.task_updates + 20 * 2) << "once a layer";
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 21);
}

TEST(GraphRunner, B46AboveTheLargestBucketRunsEagerlyCountedWithTheSameBits) {
  StepHarness eager(runner_options(Mode::kEager));
  StepHarness harness(runner_options());
  prefill(eager, 9);
  prefill(harness, 9);
  for (const int32_t rows : {8, 9, 9, 2, 9, 8}) EXPECT_EQ(decode_first(harness, rows, 3), decode_first(eager, rows, 3));
  EXPECT_EQ(decodes(harness, StepReason::kAboveLargestBucket), 3);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 3) << "replay comes back when the batch shrinks";
}

TEST(GraphRunner, B54WithoutPaddingExactSizesAreReplayedAndOthersAreNot) {
  StepHarness::Options options = runner_options();
  options.padding = false;
  StepHarness harness(options);
  prefill(harness, 9);
  for (const int32_t rows : {1, 2, 4, 8}) decode_first(harness, rows, 3);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 4);
  for (const int32_t rows : {3, 5, 6, 7}) decode_first(harness, rows, 3);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 4);
  EXPECT_EQ(decodes(harness, StepReason::kNoExactBucket), 4);
}

TEST(GraphRunner, B51ABucketThatFailsToCaptureCostsOnlyItself) {
  StepHarness::Options options = runner_options();
  options.prepare = [](ops::Registry& registry) {
    ops::OpDef& linear = registry.get("linear");
    healthy_linear = *linear.kernel("cpu");
    ops::OpKernel failing = healthy_linear;
    failing.run = linear_that_fails_to_capture_four_rows;
    linear.set_kernel("cpu", failing);
  };
  StepHarness harness(options);
  StepHarness eager(runner_options(Mode::kEager));
  prefill(harness, 9);
  prefill(eager, 9);
  harness.runner().capture();
  for (const int32_t rows : {4, 3, 2, 8, 4, 5}) EXPECT_EQ(decode_first(harness, rows, 3), decode_first(eager, rows, 3));
  EXPECT_EQ(decodes(harness, StepReason::kCaptureFailed), 3);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 3);
  const CaptureReport& report = harness.runner().capture_report();
  ASSERT_EQ(report.buckets.size(), 4u);
  EXPECT_EQ(report.buckets[1].size, 4);
  EXPECT_NE(report.buckets[1].failure.find("no memory for four rows"), std::string::npos);
  EXPECT_EQ(report.buckets[0].failure, "");
}

TEST(GraphRunner, B37PaddingTouchesNoPageOfASequence) {
  StepHarness harness(runner_options());
  prefill(harness, 9);
  for (const int32_t rows : {3, 5}) {
    const std::vector<std::byte> before = harness.all_pages();
    std::vector<std::vector<std::byte>> contents;
    for (int32_t i = 0; i < 9; ++i) contents.push_back(harness.kv_contents(i));
    decode_first(harness, rows, 7);
    size_t changed = 0;
    const std::vector<std::byte> after = harness.all_pages();
    for (size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
    // Two layers of keys and values, two heads of 32 elements of 2 bytes for each decoded row.
    EXPECT_LE(changed, static_cast<size_t>(rows) * 2 * 2 * 2 * 32 * 2);
    EXPECT_GT(changed, 0u);
    for (int32_t i = 0; i < 9; ++i) {
      if (i < rows) continue;
      EXPECT_EQ(harness.kv_contents(i), contents[static_cast<size_t>(i)]);
    }
  }
}

TEST(GraphRunner, B40TablesOfAShorterSequenceInTheSameRowReadNoForeignPage) {
  for (const int32_t length : {63, 64, 48, 49}) {
    Rows expected;
    for (const Mode mode : {Mode::kEager, Mode::kFull}) {
      StepHarness::Options options = runner_options(mode);
      options.pages_per_sequence = 5;
      options.max_running = 1;
      options.buckets = {1};
      StepHarness harness(options);
      harness.feed(0, std::vector<int32_t>(static_cast<size_t>(length), 9));
      Rows rows;
      for (int i = 0; i < 2; ++i) rows.push_back(harness.decode({0}, {4})[0]);
      harness.drop(0);
      harness.feed(0, {1, 2, 3, 4, 5});
      rows.push_back(harness.decode({0}, {4})[0]);
      for (const std::vector<float>& row : rows) {
        for (const float value : row) ASSERT_TRUE(std::isfinite(value));
      }
      if (expected.empty()) expected = rows;
      EXPECT_EQ(rows, expected);
    }
  }
}

TEST(GraphRunner, B44DecodeAcrossEveryCutOfTheKeysEqualsEager) {
  // Attention cuts keys every 256 positions, and decides by length how many tiles a launch has.
  for (const int32_t start : {126, 254, 510, 1022}) {
    Rows expected;
    for (const Mode mode : {Mode::kEager, Mode::kFull}) {
      StepHarness::Options options = runner_options(mode, "models/mini");
      options.pages_per_sequence = 72;
      options.max_running = 2;
      options.buckets = {1, 2};
      options.threads = 2;
      StepHarness harness(options);
      std::mt19937 random(3);
      std::vector<int32_t> tokens(static_cast<size_t>(start));
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2000);
      harness.feed(0, tokens, 200);
      harness.feed(1, {1, 2, 3});
      Rows rows;
      for (int i = 0; i < 5; ++i) {
        for (std::vector<float>& row : harness.decode({0, 1}, {i, i})) rows.push_back(std::move(row));
      }
      if (expected.empty()) expected = rows;
      EXPECT_EQ(rows, expected) << "from " << start;
    }
  }
}

TEST(GraphRunner, B49BucketsSharingOneArenaGiveWhatAFreshProcessGives) {
  for (const bool ascending : {true, false}) {
    StepHarness harness(runner_options());
    prefill(harness, 9);
    if (!ascending) harness.runner().capture();
    StepHarness fresh(runner_options(Mode::kEager));
    prefill(fresh, 9);
    for (const int32_t rows : {1, 8, 1, 8, 2, 7})
      EXPECT_EQ(decode_first(harness, rows, 5), decode_first(fresh, rows, 5));
  }
}

TEST(GraphRunner, B50GraphsAreSmallGrowLinearlyAndAreGoneWithTheRunner) {
  StepHarness::Options options = runner_options();
  options.max_running = 64;
  options.pages_per_sequence = 2;
  options.buckets = {1, 8, 64};
  StepHarness harness(options);
  harness.runner().capture();
  const CaptureReport& report = harness.runner().capture_report();
  ASSERT_EQ(report.buckets.size(), 3u);
  for (const CaptureReport::Bucket& bucket : report.buckets) {
    EXPECT_GT(bucket.bytes, 0u);
    EXPECT_LT(bucket.bytes, 64u * 1024) << "batch " << bucket.size;
  }
  const size_t allocated = harness.device().memory_info().allocated_bytes;
  size_t after_first = 0;
  for (int round = 0; round < 50; ++round) {
    RunnerOptions runner_options;
    runner_options.buckets.sizes = {1, 2};
    runner_options.buckets.max_running = 2;
    runner_options.max_pages = 2;
    runner_options.scratch_slots = 16;
    GraphRunner runner(
        harness.registry(), harness.device(),
        [&](ops::ForwardContext& context) { return harness.model().forward(context, harness.kv()); }, 512, {},
        runner_options);
    runner.capture();
    const size_t now = harness.device().memory_info().allocated_bytes;
    if (round == 0) after_first = now;
    EXPECT_EQ(now, after_first);
  }
  EXPECT_EQ(harness.device().memory_info().allocated_bytes, allocated);
}

TEST(GraphRunner, TracingAgainAfterEveryReplayGivesTheSameGraph) {
  StepHarness::Options options = runner_options();
  options.retrace_every = 1;
  StepHarness harness(options);
  prefill(harness, 2);
  for (int step = 0; step < 3; ++step) decode_first(harness, 2, step);
  EXPECT_EQ(decodes(harness, StepReason::kReplayed), 3);
}

TEST(GraphRunner, ABatchThatContradictsItselfIsRefusedAndTheNextOneRuns) {
  StepHarness harness(runner_options());
  prefill(harness, 2);
  const Rows before = decode_first(harness, 2, 1);
  StepBatch batch;
  batch.token_ids = {1, 2};
  batch.positions = {0, 1};
  batch.slots = {20, 21};
  batch.query_lengths = {1};
  batch.kv_lengths = {1};
  batch.max_pages = 1;
  batch.block_tables = {1};
  const auto refused = [&](const char* what) {
    try {
      harness.runner().run(batch);
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused("query lengths do not add up");
  batch.query_lengths = {2};
  refused("has 2 new tokens of 1");
  batch.kv_lengths = {2, 3};
  refused("lists of sequences differ");
  batch.kv_lengths = {2};
  batch.max_pages = 99;
  refused("sequences x pages");
  batch.positions.pop_back();
  refused("lists of tokens differ");
  EXPECT_EQ(decode_first(harness, 2, 1).size(), before.size());
}

TEST(GraphRunner, PiecewiseCapturesOnePieceMoreThanThereAreSplits) {
  StepHarness harness(runner_options(Mode::kPiecewise));
  prefill(harness, 3);
  const int64_t before = harness.device().counters().captures;
  decode_first(harness, 3, 1);
  // Two layers, so two attentions between three pieces.
  EXPECT_EQ(harness.device().counters().captures, before + 3);
  ASSERT_EQ(harness.runner().capture_report().buckets.size(), 1u);
  EXPECT_EQ(harness.runner().capture_report().buckets[0].pieces, 3);
  const int64_t dispatches = harness.runner().operator_dispatches();
  const device::DeviceCounters counters = harness.device().counters();
  decode_first(harness, 3, 2);
  EXPECT_EQ(harness.runner().operator_dispatches(), dispatches + 2) << "the attentions";
  EXPECT_EQ(harness.device().counters().replays, counters.replays + 3);
  EXPECT_EQ(harness.device().counters().task_updates, counters.task_updates) << "live values need no update";
  EXPECT_NE(harness.runner().program_text(4).find("eager paged_attention"), std::string::npos);
}

TEST(GraphRunner, AnEmptyStepIsNoStep) {
  StepHarness harness(runner_options());
  EXPECT_EQ(harness.runner().run(StepBatch()).rows, 0);
  EXPECT_EQ(harness.runner().counters().steps(StepKind::kDecode), 0);
}

TEST(GraphRunner, ScratchSlotsMustHoldTheLargestBucket) {
  StepHarness harness(runner_options());
  RunnerOptions options;
  options.buckets.sizes = {8};
  options.buckets.max_running = 8;
  options.scratch_slots = 7;
  EXPECT_THROW(
      GraphRunner(
          harness.registry(), harness.device(), [](ops::ForwardContext&) { return Tensor(); }, 512, {}, options),
      Error);
}

}  // namespace reprise::replay
