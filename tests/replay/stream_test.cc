// A model whose decode step runs on two streams, with a host-tiled operator under a core limit on each: the same bits
// in every mode, and what it is counted as.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/convolution.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/scopes.h"
#include "replay/graph_runner.h"

namespace reprise::replay {
namespace {

constexpr int32_t kStreamVocabulary = 40;
constexpr int64_t kStreamChannels = 48;
constexpr int64_t kStreamWidth = 4;
constexpr int32_t kStreamScratch = 8;
constexpr int32_t kStreamSequences = 5;

/// Limits that launches of the convolution ran under, by whether they were captured, issued again or neither.
std::vector<int> captured_limits, other_limits;
ops::OpKernel plain_convolution;
void note_limit(const ops::OpCall& call) {
  const bool capturing = call.stream->capture_info().status == device::CaptureStatus::kActive;
  (capturing ? captured_limits : other_limits).push_back(call.stream->core_limit().matrix_cores);
  plain_convolution.run(call);
}

/// Two convolutions beside each other, whose sum goes to the head.
class TwoStreamModel {
 public:
  TwoStreamModel(const ops::Registry& registry, device::Device& device) : device_(device) {
    table_ = random({kStreamVocabulary, kStreamChannels});
    ops::EagerDispatcher dispatcher(registry, device, device.default_stream());
    ops::ForwardContext context(dispatcher);
    head_.weight = ops::pack_linear_weight(context, random({kStreamVocabulary, kStreamChannels}));
    device.synchronize();
    for (int i = 0; i < 2; ++i) {
      weights_.push_back(random({kStreamChannels, kStreamWidth}));
      const TensorMeta state(DType::kF32, {kStreamScratch + kStreamSequences, kStreamWidth - 1, kStreamChannels});
      states_.emplace_back(state, device.allocate(state.contiguous_bytes()));
      device.fill(states_.back().data(), 0, state.contiguous_bytes());
    }
  }

  Tensor forward(ops::ForwardContext& context) const {
    Tensor x = ops::embedding(context, context.token_ids, table_, DType::kF32);
    ops::record_event(context, "x");
    Tensor side;
    {
      const auto scope = ops::stream(context, "side");
      const auto limit = ops::limit_core_num(context, 1);
      ops::wait_event(context, "x");
      side = ops::mul(context, convolve(context, x, 1), x);
      ops::record_event(context, "side");
    }
    x = ops::silu(context, convolve(context, x, 0));
    ops::wait_event(context, "side");
    x = ops::add(context, x, side);
    if (context.logit_rows.defined()) x = ops::gather_rows(context, x, context.logit_rows);
    return ops::linear(context, x, head_, DType::kF32);
  }

 private:
  Tensor convolve(ops::ForwardContext& context, const Tensor& x, size_t index) const {
    return ops::causal_conv1d(context, x, weights_[index], Tensor(), states_[index]);
  }
  Tensor random(const Shape& shape) {
    const TensorMeta meta(DType::kF32, shape);
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& value : values) {
      next_ = next_ * 1103515245u + 12345u;
      value = static_cast<float>(next_ >> 16) / 32768.0f - 1.0f;
    }
    Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
    device_.copy(tensor.data(), values.data(), meta.contiguous_bytes(), device::CopyKind::kHostToDevice);
    return tensor;
  }

  device::Device& device_;
  uint32_t next_ = 17;
  Tensor table_;
  std::vector<Tensor> weights_, states_;
  ops::LinearWeights head_;
};

struct Setting {
  Mode mode = Mode::kEager;
  int threads = 1;
  device::UpdateOrder order = device::UpdateOrder::kUpdateThenReplay;
};

/// Reads prompts of lengths 1 to 5, then decodes batches of 1 to 5 rows, twice; all logits.
std::vector<float> run_stream(const Setting& setting, StepReason decode_reason) {
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  ops::OpDef& convolution = registry.get("causal_conv1d");
  plain_convolution = *convolution.kernel("cpu");
  ops::OpKernel kernel = plain_convolution;
  kernel.run = note_limit;
  convolution.set_kernel("cpu", kernel);
  captured_limits.clear();
  other_limits.clear();
  const auto device = device::cpu::create_cpu_device({.threads = setting.threads});
  const TwoStreamModel model(registry, *device);
  RunnerOptions options;
  options.mode = setting.mode;
  options.splitting_ops = {"causal_conv1d"};
  options.buckets.sizes = {1, 2, 4, 8};
  options.buckets.max_running = kStreamScratch;
  options.scratch_slots = kStreamScratch;
  options.sequence_state = true;
  options.poison = true;
  options.update_order = setting.order;
  options.retrace_every = 1;
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model.forward(context); }, kStreamVocabulary, {},
      options);
  std::vector<float> logits;
  std::vector<int32_t> lengths(kStreamSequences, 0);
  const auto step = [&](int32_t first, int32_t rows, int32_t tokens) {
    StepBatch batch;
    batch.max_pages = 1;
    for (int32_t sequence = first; sequence < first + rows; ++sequence) {
      int32_t& length = lengths[static_cast<size_t>(sequence)];
      for (int32_t i = 0; i < tokens; ++i) {
        batch.token_ids.push_back((sequence * 7 + length * 3) % kStreamVocabulary);
        batch.positions.push_back(length++);
        batch.slots.push_back(0);
      }
      batch.query_lengths.push_back(tokens);
      batch.kv_lengths.push_back(length);
      batch.sequence_slots.push_back(kStreamScratch + sequence);
      batch.block_tables.push_back(0);
    }
    const LogitsView view = runner.run(batch);
    for (int32_t row = 0; row < view.rows; ++row)
      logits.insert(logits.end(), view.row(row).begin(), view.row(row).end());
  };
  for (int32_t sequence = 0; sequence < kStreamSequences; ++sequence) step(sequence, 1, 2 + sequence);
  for (int32_t round = 0; round < 2; ++round) {
    for (int32_t rows = 1; rows <= kStreamSequences; ++rows) step(0, rows, 1);
  }
  const StepCounters& counters = runner.counters();
  EXPECT_EQ(counters.steps(StepKind::kDecode, decode_reason), counters.steps(StepKind::kDecode));
  return logits;
}

TEST(TwoStreams, EveryModeGivesTheBitsOfEager) {
  const std::vector<float> eager = run_stream({Mode::kEager, 1}, StepReason::kModeEager);
  ASSERT_FALSE(eager.empty());
  for (const float value : eager) ASSERT_TRUE(std::isfinite(value));
  for (const int threads : {1, 2, 5}) {
    EXPECT_EQ(run_stream({Mode::kEager, threads}, StepReason::kModeEager), eager) << threads;
    EXPECT_EQ(run_stream({Mode::kAotEager, threads}, StepReason::kModeEager), eager) << threads;
    EXPECT_EQ(run_stream({Mode::kForceEager, threads}, StepReason::kModeEager), eager) << threads;
    EXPECT_EQ(run_stream({Mode::kFull, threads}, StepReason::kReplayed), eager) << threads;
    EXPECT_EQ(run_stream({Mode::kFull, threads, device::UpdateOrder::kReplayThenUpdate}, StepReason::kReplayed), eager)
        << threads;
  }
}

TEST(TwoStreams, PiecewiseSaysThatItCannotCutThemAndRunsEagerly) {
  const std::vector<float> eager = run_stream({Mode::kEager, 2}, StepReason::kModeEager);
  EXPECT_EQ(run_stream({Mode::kPiecewise, 2}, StepReason::kCaptureFailed), eager);
}

TEST(TwoStreams, TaskUpdatesIssueLaunchesUnderTheLimitThatTheyWereCapturedWith) {
  for (const device::UpdateOrder order :
       {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    run_stream({Mode::kFull, 2, order}, StepReason::kReplayed);
    // The side stream's convolution comes first; four buckets were used.
    EXPECT_EQ(captured_limits, (std::vector<int>{1, 0, 1, 0, 1, 0, 1, 0}));
    // Five prompts node by node, and ten decode steps.
    ASSERT_EQ(other_limits.size(), 30u);
    for (size_t i = 0; i < other_limits.size(); ++i) EXPECT_EQ(other_limits[i], i % 2 == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace reprise::replay
