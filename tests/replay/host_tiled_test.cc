// The mechanism of host-tiled operators is not attention's: a model of causal convolutions, whose launches depend on
// the lengths of the sequences and whose state is kept once per sequence, is captured, updated and replayed as well.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "device/ascend/ascend_device.h"
#include "device/cpu/cpu_device.h"
#include "kernels/ascend/register_ascend_kernels.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/convolution.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "replay/graph_runner.h"

namespace reprise::replay {
namespace {

constexpr int32_t kVocabulary = 40;
constexpr int64_t kChannels = 24;
constexpr int64_t kWidth = 4;
constexpr int32_t kScratch = 8;
constexpr int32_t kSequences = 6;

/// Two convolutions with a residual between embedding and head.
class ConvolutionModel {
 public:
  ConvolutionModel(const ops::Registry& registry, device::Device& device) : device_(device) {
    table_ = random({kVocabulary, kChannels});
    ops::EagerDispatcher dispatcher(registry, device, device.default_stream());
    ops::ForwardContext context(dispatcher);
    head_.weight = ops::pack_linear_weight(context, random({kVocabulary, kChannels}));
    device.synchronize();
    for (int layer = 0; layer < 2; ++layer) {
      weights_.push_back(random({kChannels, kWidth}));
      biases_.push_back(random({kChannels}));
      const TensorMeta state(DType::kF32, {kScratch + kSequences, kWidth - 1, kChannels});
      states_.emplace_back(state, device.allocate(state.contiguous_bytes()));
      device.fill(states_.back().data(), 0xFF, state.contiguous_bytes());
    }
  }

  Tensor forward(ops::ForwardContext& context) const {
    Tensor x = ops::embedding(context, context.token_ids, table_, DType::kF32);
    for (size_t layer = 0; layer < 2; ++layer) {
      x = ops::add(context, x, ops::causal_conv1d(context, x, weights_[layer], biases_[layer], states_[layer]));
    }
    if (context.logit_rows.defined()) x = ops::gather_rows(context, x, context.logit_rows);
    return ops::linear(context, x, head_, DType::kF32);
  }

  std::vector<float> state(size_t layer) const {
    std::vector<float> values(static_cast<size_t>(states_[layer].shape().elements()));
    device_.copy(values.data(), states_[layer].data(), values.size() * sizeof(float), device::CopyKind::kDeviceToHost);
    // Scratch is nobody's.
    values.erase(values.begin(), values.begin() + kScratch * (kWidth - 1) * kChannels);
    return values;
  }

 private:
  Tensor random(const Shape& shape) {
    const TensorMeta meta(DType::kF32, shape);
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& value : values) value = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
    Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
    device_.copy(tensor.data(), values.data(), meta.contiguous_bytes(), device::CopyKind::kHostToDevice);
    return tensor;
  }

  device::Device& device_;
  std::mt19937 random_{17};
  Tensor table_;
  std::vector<Tensor> weights_, biases_, states_;
  ops::LinearWeights head_;
};

RunnerOptions runner_options(std::vector<int32_t> buckets) {
  RunnerOptions options;
  options.buckets.sizes = std::move(buckets);
  options.scratch_slots = kScratch;
  options.sequence_state = true;
  return options;
}

/// Adds the next tokens of a sequence, whose length grows.
void add_to_batch(StepBatch& batch, int32_t sequence, int32_t tokens, int32_t& length) {
  batch.max_pages = 1;
  for (int32_t i = 0; i < tokens; ++i) {
    batch.token_ids.push_back((sequence * 7 + length * 3) % kVocabulary);
    batch.positions.push_back(length++);
    batch.slots.push_back(0);
  }
  batch.query_lengths.push_back(tokens);
  batch.kv_lengths.push_back(length);
  batch.sequence_slots.push_back(kScratch + sequence);
  batch.block_tables.push_back(0);
}

struct TiledOutcome {
  std::vector<std::vector<float>> logits;
  std::vector<float> states;
  friend bool operator==(const TiledOutcome&, const TiledOutcome&) = default;
};

struct TiledMachine {
  ops::Registry registry = ops::make_catalogue();
  std::unique_ptr<device::Device> device;
};

TiledMachine cpu(int threads) {
  TiledMachine machine;
  kernels::cpu::register_cpu_kernels(machine.registry);
  machine.device = device::cpu::create_cpu_device({.threads = threads});
  return machine;
}

/// Prefills six sequences of lengths 1 to 11 in chunks, then decodes batches of 1 to 6 of them.
TiledOutcome run_tiled(Mode mode, const TiledMachine& machine, device::UpdateOrder order, int32_t chunk) {
  const ops::Registry& registry = machine.registry;
  device::Device* device = machine.device.get();
  const ConvolutionModel model(registry, *device);
  RunnerOptions options = runner_options({1, 2, 4, 8});
  options.mode = mode;
  options.buckets.max_running = kScratch;
  options.poison = true;
  options.prefill_graph_tokens = {2, 3};
  options.update_order = order;
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model.forward(context); }, kVocabulary, {},
      options);
  TiledOutcome outcome;
  std::vector<int32_t> lengths(kSequences, 0);
  const auto step = [&](const std::vector<std::pair<int32_t, int32_t>>& rows) {
    StepBatch batch;
    for (const auto& [sequence, tokens] : rows) {
      add_to_batch(batch, sequence, tokens, lengths[static_cast<size_t>(sequence)]);
    }
    const LogitsView logits = runner.run(batch);
    for (int32_t row = 0; row < logits.rows; ++row)
      outcome.logits.emplace_back(logits.row(row).begin(), logits.row(row).end());
  };
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    const int32_t total = 1 + 2 * sequence;
    for (int32_t done = 0; done < total; done += chunk) step({{sequence, std::min(chunk, total - done)}});
    outcome.logits.erase(outcome.logits.begin() + sequence, outcome.logits.end() - 1);
  }
  for (int32_t rows = 1; rows <= kSequences; ++rows) {
    std::vector<std::pair<int32_t, int32_t>> batch;
    for (int32_t i = 0; i < rows; ++i) batch.emplace_back(kSequences - 1 - i, 1);
    step(batch);
  }
  outcome.states = model.state(0);
  for (const float value : model.state(1)) outcome.states.push_back(value);
  if (mode == Mode::kFull) {
    const StepCounters& counters = runner.counters();
    EXPECT_GT(counters.steps(StepKind::kDecode, StepReason::kReplayed), 0);
    EXPECT_EQ(counters.steps(StepKind::kDecode), counters.steps(StepKind::kDecode, StepReason::kReplayed));
    const int64_t replayed_prompts = counters.steps(StepKind::kPrefill, StepReason::kReplayed);
    EXPECT_EQ(replayed_prompts > 0, chunk > 1) << chunk;
    EXPECT_EQ(device->counters().task_updates, 2 * (counters.steps(StepKind::kDecode) + replayed_prompts))
        << "once for each convolution";
  }
  return outcome;
}

}  // namespace

TEST(HostTiled, AConvolutionIsCapturedUpdatedAndReplayedLikeAttention) {
  const auto order = device::UpdateOrder::kUpdateThenReplay;
  const TiledOutcome eager = run_tiled(Mode::kEager, cpu(1), order, 100);
  for (const std::vector<float>& row : eager.logits) {
    for (const float value : row) ASSERT_TRUE(std::isfinite(value));
  }
  for (const int threads : {1, 2, 5}) {
    for (const int32_t chunk : {1, 2, 3, 100}) {
      EXPECT_EQ(run_tiled(Mode::kFull, cpu(threads), order, chunk), eager)
          << threads << " threads, chunks of " << chunk;
    }
  }
  EXPECT_EQ(run_tiled(Mode::kFull, cpu(2), device::UpdateOrder::kReplayThenUpdate, 100), eager);
  EXPECT_EQ(run_tiled(Mode::kForceEager, cpu(2), order, 100), eager);
}

#ifdef REPRISE_EMULATOR_DIR
namespace {

TiledMachine ascend() {
  TiledMachine machine;
  machine.device = device::ascend::create_ascend_device({.library = {.folder = REPRISE_EMULATOR_DIR, .hide = nullptr}});
  kernels::ascend::register_ascend_kernels(machine.registry, *machine.device);
  return machine;
}

}  // namespace

/// There the convolution is given the lists as tensors of the host, which its launch takes over.
TEST(HostTiled, AConvolutionWithListsOfTheHostIsCapturedUpdatedAndReplayedOnAscend) {
  const auto order = device::UpdateOrder::kUpdateThenReplay;
  const TiledOutcome eager = run_tiled(Mode::kEager, ascend(), order, 100);
  EXPECT_EQ(run_tiled(Mode::kForceEager, ascend(), order, 100), eager);
  for (const int32_t chunk : {1, 3}) {
    EXPECT_EQ(run_tiled(Mode::kFull, ascend(), order, chunk), eager) << chunk;
    EXPECT_EQ(run_tiled(Mode::kFull, ascend(), device::UpdateOrder::kReplayThenUpdate, chunk), eager) << chunk;
  }
  const TiledOutcome other = run_tiled(Mode::kEager, cpu(1), order, 100);
  ASSERT_EQ(other.logits.size(), eager.logits.size());
  for (size_t row = 0; row < eager.logits.size(); ++row) {
    for (size_t i = 0; i < eager.logits[row].size(); ++i)
      EXPECT_NEAR(eager.logits[row][i], other.logits[row][i], 1e-3) << row << ", " << i;
  }
}
#endif

namespace {

ops::OpKernel honest_convolution;
int32_t extra_launches = 0;
void launch_more_often_later(const ops::OpCall& call) {
  honest_convolution.run(call);
  if (call.stream->capture_info().status != device::CaptureStatus::kActive && extra_launches > 0) {
    honest_convolution.run(call);
  }
}

}  // namespace

TEST(HostTiled, AnotherNumberOfLaunchesThanAtCaptureIsAnErrorAndTheRunnerGoesOn) {
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  ops::OpDef& convolution = registry.get("causal_conv1d");
  honest_convolution = *convolution.kernel("cpu");
  ops::OpKernel kernel = honest_convolution;
  kernel.run = launch_more_often_later;
  convolution.set_kernel("cpu", kernel);
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const ConvolutionModel model(registry, *device);
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model.forward(context); }, kVocabulary, {},
      runner_options({1}));
  StepBatch batch;
  int32_t length = 0;
  add_to_batch(batch, 0, 1, length);
  const LogitsView first = runner.run(batch);
  const std::vector<float> expected(first.row(0).begin(), first.row(0).end());
  extra_launches = 1;
  try {
    runner.run(batch);
    ADD_FAILURE() << "an update with more launches was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTaskUpdateMismatch) << error.what();
  }
  extra_launches = 0;
  const LogitsView again = runner.run(batch);
  EXPECT_EQ(std::vector<float>(again.row(0).begin(), again.row(0).end()), expected);
}

namespace {

int32_t calls_until_fault = 0;
void fail_at_a_call(const ops::OpCall& call) {
  if (calls_until_fault > 0 && --calls_until_fault == 0) throw Error(ErrorCode::kInternal, "a fault half way");
  honest_convolution.run(call);
}

/// Logits of sequence 0 and its states at the end; `with_fault`: steps of sequence 1 fail in their second convolution.
TiledOutcome run_beside_faults(Mode mode, device::UpdateOrder order, bool with_fault) {
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  ops::OpDef& convolution = registry.get("causal_conv1d");
  honest_convolution = *convolution.kernel("cpu");
  ops::OpKernel kernel = honest_convolution;
  kernel.run = fail_at_a_call;
  convolution.set_kernel("cpu", kernel);
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const ConvolutionModel model(registry, *device);
  RunnerOptions options = runner_options({1});
  options.mode = mode;
  options.update_order = order;
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model.forward(context); }, kVocabulary, {},
      options);
  runner.capture();
  TiledOutcome outcome;
  std::vector<int32_t> lengths(2, 0);
  const auto step = [&](int32_t sequence, int32_t tokens) {
    StepBatch batch;
    add_to_batch(batch, sequence, tokens, lengths[static_cast<size_t>(sequence)]);
    const LogitsView logits = runner.run(batch);
    outcome.logits.emplace_back(logits.row(0).begin(), logits.row(0).end());
  };
  for (const int32_t tokens : {3, 1, 1, 2, 1}) {
    if (with_fault) {
      calls_until_fault = 2;
      EXPECT_THROW(step(1, tokens), Error);
      calls_until_fault = 0;
    }
    step(0, tokens);
  }
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::vector<float> state = model.state(layer);
    outcome.states.insert(outcome.states.end(), state.begin(), state.begin() + (kWidth - 1) * kChannels);
  }
  return outcome;
}

}  // namespace

TEST(HostTiled, AStepThatFailsHalfWayLeavesNothingToTheNextOne) {
  for (const device::UpdateOrder order :
       {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    const TiledOutcome expected = run_beside_faults(Mode::kEager, order, false);
    for (const Mode mode : {Mode::kEager, Mode::kForceEager, Mode::kFull}) {
      EXPECT_EQ(run_beside_faults(mode, order, true), expected)
          << name_of(mode) << ", order " << static_cast<int>(order);
    }
  }
}

/// An operator between two captured pieces fails: the piece in front is queued, and waits for its updates.
TEST(HostTiled, AStepThatFailsBetweenTwoPiecesComesToItsEnd) {
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  ops::OpDef& head = registry.get("linear");
  static ops::OpKernel honest_head;
  static bool fails;
  honest_head = *head.kernel("cpu");
  fails = false;
  ops::OpKernel kernel = honest_head;
  kernel.run = [](const ops::OpCall& call) {
    if (fails) throw Error(ErrorCode::kInternal, "a fault between two pieces");
    honest_head.run(call);
  };
  head.set_kernel("cpu", kernel);
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const ConvolutionModel model(registry, *device);
  RunnerOptions options = runner_options({1});
  options.mode = Mode::kPiecewise;
  options.splitting_ops = {"linear"};
  options.update_order = device::UpdateOrder::kReplayThenUpdate;
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model.forward(context); }, kVocabulary, {},
      options);
  const auto step = [&](int32_t sequence) {
    StepBatch batch;
    int32_t length = 0;
    add_to_batch(batch, sequence, 1, length);
    const LogitsView logits = runner.run(batch);
    EXPECT_EQ(runner.last_reason(), StepReason::kReplayed);
    return std::vector<float>(logits.row(0).begin(), logits.row(0).end());
  };
  const std::vector<float> expected = step(0);
  fails = true;
  EXPECT_THROW(step(1), Error);
  fails = false;
  EXPECT_EQ(step(0), expected);
}

}  // namespace reprise::replay
