// Kernels that choose on the host: captured launches are replayed only for the choices that they were captured with.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/malloc_counter.h"
#include "device/cpu/cpu_device.h"
#include "harness/switching_operator.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/eager_dispatcher.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "replay/graph_runner.h"

namespace reprise::replay {
namespace {

constexpr int32_t kChoiceVocabulary = 40;
constexpr int64_t kColumns = 24;
constexpr int32_t kMostSequences = 4;

/// Embedding, length_scale, head; on a runner of its own.
class Machine {
 public:
  struct Options {
    Mode mode = Mode::kFull;
    device::UpdateOrder order = device::UpdateOrder::kUpdateThenReplay;
    std::vector<std::string> splitting_ops = {"linear"};
    std::vector<int32_t> prefill_sizes = {};
    int64_t capture_limit = 64;
  };

  explicit Machine(const Options& options, ops::OpDef op = switching::make_operator())
      : registry_(ops::make_catalogue()) {
    kernels::cpu::register_cpu_kernels(registry_);
    registry_.add(std::move(op));
    device_ = device::cpu::create_cpu_device({.threads = 2});
    table_ = random({kChoiceVocabulary, kColumns});
    ops::EagerDispatcher dispatcher(registry_, *device_, device_->default_stream());
    ops::ForwardContext context(dispatcher);
    head_.weight = ops::pack_linear_weight(context, random({kChoiceVocabulary, kColumns}));
    device_->synchronize();
    RunnerOptions runner_options;
    runner_options.mode = options.mode;
    runner_options.buckets.sizes = {1, 2, 4};
    runner_options.buckets.max_running = kMostSequences;
    runner_options.scratch_slots = kMostSequences;
    runner_options.poison = true;
    runner_options.update_order = options.order;
    runner_options.splitting_ops = options.splitting_ops;
    runner_options.prefill_graph_tokens = options.prefill_sizes;
    runner_options.capture_limit = options.capture_limit;
    runner_ = std::make_unique<GraphRunner>(
        registry_, *device_, [this](ops::ForwardContext& step) { return forward(step); }, kChoiceVocabulary,
        std::vector<std::pair<std::string, Tensor>>(), runner_options);
  }

  /// Logits of a step of sequences with these lengths, `tokens` of them new.
  std::vector<float> run(const std::vector<int32_t>& lengths, int32_t tokens = 1) {
    batch_.clear();
    batch_.max_pages = 1;
    for (const int32_t length : lengths) {
      for (int32_t i = 0; i < tokens; ++i) {
        batch_.token_ids.push_back((length + 7 * i) % kChoiceVocabulary);
        batch_.positions.push_back(length - tokens + i);
        batch_.slots.push_back(0);
      }
      batch_.query_lengths.push_back(tokens);
      batch_.kv_lengths.push_back(length);
      batch_.block_tables.push_back(0);
    }
    const LogitsView logits = runner_->run(batch_);
    return {logits.data, logits.data + int64_t{logits.rows} * logits.vocabulary};
  }
  const StepBatch& last_batch() const { return batch_; }

  GraphRunner& runner() { return *runner_; }
  device::Device& device() { return *device_; }
  int64_t decodes(StepReason reason) const { return runner_->counters().steps(StepKind::kDecode, reason); }

 private:
  Tensor forward(ops::ForwardContext& context) const {
    const Tensor x = ops::embedding(context, context.token_ids, table_, DType::kF32);
    Tensor y = switching::length_scale(context, x, context.query_lengths, context.kv_lengths);
    if (context.logit_rows.defined()) y = ops::gather_rows(context, y, context.logit_rows);
    return ops::linear(context, y, head_, DType::kF32);
  }
  Tensor random(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& value : values) value = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
    Tensor tensor(TensorMeta(DType::kF32, shape), device_->allocate(values.size() * sizeof(float)));
    device_->copy(tensor.data(), values.data(), values.size() * sizeof(float), device::CopyKind::kHostToDevice);
    return tensor;
  }

  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  std::mt19937 random_{17};
  Tensor table_;
  ops::LinearWeights head_;
  StepBatch batch_;
  std::unique_ptr<GraphRunner> runner_;
};

// Expected messages need no lines on the terminal.
class Choices : public ::testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

}  // namespace

TEST_F(Choices, B44ReplayEqualsEagerOnBothSidesOfTheLengthWhereAKernelSwitches) {
  const std::vector<std::vector<int32_t>> steps = {{126},         {127},        {128},      {129}, {127},
                                                   {5, 127},      {5, 128},     {9},        {200}, {3},
                                                   {129, 4, 127}, {1, 2, 3, 4}, {127, 128}, {7, 8}};
  Machine eager({.mode = Mode::kEager});
  std::vector<std::vector<float>> expected;
  for (const std::vector<int32_t>& lengths : steps) expected.push_back(eager.run(lengths));
  for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    for (const Mode mode : {Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
      Machine machine({.mode = mode, .order = order});
      for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < steps.size(); ++i) {
          EXPECT_EQ(machine.run(steps[i]), expected[i]) << name_of(mode) << ", step " << i << ", round " << round;
        }
      }
      if (mode == Mode::kForceEager) continue;
      EXPECT_EQ(machine.decodes(StepReason::kReplayed), static_cast<int64_t>(3 * steps.size()));
      const CaptureReport& report = machine.runner().capture_report();
      EXPECT_EQ(report.buckets.size(), 3u);
      EXPECT_EQ(report.variants, 3) << "each bucket has met both sides";
      EXPECT_EQ(machine.device().counters().captures, 3 * 2) << "nothing is captured a third time";
    }
  }
}

TEST_F(Choices, ASplittingOperatorRunsWithWhatItChoosesNow) {
  Machine eager({.mode = Mode::kEager});
  Machine machine({.mode = Mode::kPiecewise, .splitting_ops = {"length_scale"}});
  for (const int32_t length : {127, 128, 129, 127}) EXPECT_EQ(machine.run({length}), eager.run({length}));
  EXPECT_EQ(machine.runner().capture_report().variants, 0);
}

TEST_F(Choices, PromptStepsSwitchAsWell) {
  Machine eager({.mode = Mode::kEager});
  Machine machine({.prefill_sizes = {4}});
  for (const int32_t length : {4, 127, 128, 129, 131, 132, 6})
    EXPECT_EQ(machine.run({length}, 4), eager.run({length}, 4));
  EXPECT_EQ(machine.runner().counters().steps(StepKind::kPrefill, StepReason::kReplayed), 7);
  EXPECT_EQ(machine.runner().capture_report().variants, 1);
}

TEST_F(Choices, ACaptureOnTheWayIsMadeForTheLengthsOfItsStep) {
  Machine machine({});
  machine.run({500});
  machine.run({128});
  EXPECT_EQ(machine.runner().capture_report().variants, 0);
}

TEST_F(Choices, ACaptureAheadIsFollowedByWhatLaterLengthsNeed) {
  Machine eager({.mode = Mode::kEager});
  Machine machine({});
  machine.runner().capture();
  EXPECT_EQ(machine.run({500}), eager.run({500}));
  EXPECT_EQ(machine.run({5}), eager.run({5}));
  EXPECT_EQ(machine.runner().capture_report().variants, 1);
}

TEST_F(Choices, SwitchingToAndFroAllocatesNothing) {
  Machine machine({});
  for (const int32_t length : {127, 128}) machine.run({length});
  const StepBatch long_step = machine.last_batch();
  machine.run({127});
  const StepBatch short_step = machine.last_batch();
  const device::DeviceCounters before = machine.device().counters();
  const MallocCounter mallocs;
  for (int i = 0; i < 100; ++i) {
    machine.runner().run(long_step);
    machine.runner().run(short_step);
  }
  EXPECT_EQ(mallocs.count(), 0);
  const device::DeviceCounters after = machine.device().counters();
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.replays, before.replays + 200);
}

TEST_F(Choices, BeyondTheCaptureLimitAStepRunsEagerlyCounted) {
  Machine eager({.mode = Mode::kEager});
  // Three batch sizes would exceed a limit of 1 as well; only the first is used.
  Machine machine({.capture_limit = 1});
  for (const int32_t length : {127, 128, 127, 129}) EXPECT_EQ(machine.run({length}), eager.run({length}));
  EXPECT_EQ(machine.decodes(StepReason::kReplayed), 2);
  EXPECT_EQ(machine.decodes(StepReason::kCaptureLimit), 2);
  EXPECT_EQ(machine.runner().capture_report().variants, 0);
}

namespace {

void fail_to_capture_the_long_kernel(const ops::OpCall& call) {
  const bool capturing = call.stream->capture_info().status == device::CaptureStatus::kActive;
  if (capturing && call.tiling->chosen("variant") == 1) throw Error(ErrorCode::kOutOfMemory, "no memory");
  switching::run(call);
}

void choose_under_two_names(const ops::OpCall& call, ops::Tiling& tiling) {
  tiling.choose(switching::plan_rows(call, tiling) >= switching::kThreshold ? "long" : "short", 1);
}
void run_by_name(const ops::OpCall& call) { switching::launch(call, call.tiling->choices[0].name == "long"); }

void choose_silently(const ops::OpCall& call, ops::Tiling& tiling) { switching::plan_rows(call, tiling); }
void run_silently(const ops::OpCall& call) {
  const std::vector<int32_t>& lengths = call.tiling->values;
  switching::launch(call, *std::max_element(lengths.begin(), lengths.end()) >= switching::kThreshold);
}

void expect_error(ErrorCode code, Machine& machine) {
  try {
    machine.run({128});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find("length_scale"), std::string::npos) << error.what();
  }
}

}  // namespace

TEST_F(Choices, AVariantThatCannotBeCapturedCostsItsSizeOnly) {
  Machine eager({.mode = Mode::kEager});
  Machine machine({}, switching::make_operator(switching::plan, fail_to_capture_the_long_kernel));
  for (const std::vector<int32_t>& lengths : std::vector<std::vector<int32_t>>{{127}, {128}, {127}, {3, 4}}) {
    EXPECT_EQ(machine.run(lengths), eager.run(lengths));
  }
  EXPECT_EQ(machine.decodes(StepReason::kCaptureFailed), 2);
  EXPECT_EQ(machine.decodes(StepReason::kReplayed), 2);
}

TEST_F(Choices, APlanWhoseChoicesFollowFromNoChoiceIsRefusedAndTheRunnerGoesOn) {
  Machine machine({}, switching::make_operator(choose_under_two_names, run_by_name));
  const std::vector<float> expected = machine.run({127});
  expect_error(ErrorCode::kInternal, machine);
  EXPECT_EQ(machine.run({127}), expected);
}

TEST_F(Choices, AKernelThatSwitchesWithoutChoosingIsCaught) {
  Machine machine({}, switching::make_operator(choose_silently, run_silently));
  const std::vector<float> expected = machine.run({127});
  expect_error(ErrorCode::kTaskUpdateMismatch, machine);
  EXPECT_EQ(machine.run({127}), expected);
}

}  // namespace reprise::replay
