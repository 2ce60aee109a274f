// What the standard passes do to the decode step of dense checkpoints, and that no bit changes by it.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/text_writer.h"
#include "harness/step_harness.h"
#include "harness/step_runs.h"
#include "load/model_config.h"

namespace reprise::replay {
namespace {

const std::filesystem::path kPassModels = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models";

std::map<std::string, int64_t> pass_matches(const std::vector<compile::PassReport>& reports) {
  std::map<std::string, int64_t> matches;
  for (const compile::PassReport& report : reports) matches[report.pass] = report.matches;
  return matches;
}

/// Of the CPU's kernels: some operators take more than one.
int64_t launches(const graph::Graph& graph) {
  int64_t count = 0;
  for (const graph::NodeId id : graph.order()) {
    const ops::OpKernel* kernel = graph.node(id).op->kernel("cpu");
    if (kernel != nullptr) count += kernel->launches;
  }
  return count;
}

StepHarness::Options pass_options(const std::string& model, Mode mode, DType dtype) {
  StepHarness::Options options;
  options.model = kPassModels / model;
  options.mode = mode;
  options.dtype = dtype;
  options.max_running = 4;
  options.buckets = {1, 2, 4};
  options.threads = 2;
  return options;
}

/// Prompts in chunks, and decode steps of changing batches.
Outcome run_passes(StepHarness::Options options) {
  StepHarness harness(std::move(options));
  std::mt19937 random(3);
  const auto tokens = [&](size_t count) { return random_tokens(random, count); };
  Outcome outcome;
  for (int32_t sequence = 0; sequence < 4; ++sequence) {
    outcome.logits.push_back(
        harness.feed(sequence, tokens(5 + 6 * static_cast<size_t>(sequence)), 8, sequence % 2 == 1));
  }
  for (int32_t batch = 1; batch <= 4; ++batch) {
    std::vector<int32_t> sequences;
    for (int32_t i = 0; i < batch; ++i) sequences.push_back(3 - i);
    outcome.logits.push_back(harness.decode(sequences, tokens(static_cast<size_t>(batch))));
  }
  for (int32_t sequence = 0; sequence < 4; ++sequence) outcome.kv.push_back(harness.kv_contents(sequence));
  return outcome;
}

}  // namespace

class DenseCheckpoint : public ::testing::TestWithParam<std::string> {};

/// Of the 2L + 1 norms over the hidden state the first follows the embedding; the others follow a sum.
TEST_P(DenseCheckpoint, EveryFusionIsMadeInEveryLayer) {
  for (const bool int8_kv : {false, true}) {
    StepHarness::Options options = pass_options(GetParam(), Mode::kFull, DType::kBF16);
    options.int8_kv = int8_kv;
    StepHarness harness(options);
    const int64_t layers = harness.model().info().layers;
    std::map<std::string, int64_t> matches = pass_matches(harness.runner().decode_pass_reports());
    EXPECT_EQ(matches["merge_linears"], 2 * layers) << "q/k/v, and gate/up";
    EXPECT_EQ(matches["add_rms_norm"], 2 * layers);
    EXPECT_EQ(matches["embedding_rms_norm"], 1);
    EXPECT_EQ(matches["split_qkv_rms_norm_rope"], layers);
    EXPECT_EQ(matches["swiglu"], layers);
    EXPECT_LE(launches(harness.runner().decode_graph()), 10 * layers + 4)
        << graph::to_text(harness.runner().decode_graph());
  }
}

TEST_P(DenseCheckpoint, GivesTheSameBitsInEveryMode) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Outcome eager = run_passes(pass_options(GetParam(), Mode::kEager, dtype));
    for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
      EXPECT_EQ(run_passes(pass_options(GetParam(), mode, dtype)), eager) << name_of(mode) << " " << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DenseCheckpoint,
                         ::testing::Values("dense", "dense-mixed-dtype", "dense-sharded", "dense-tied-bias",
                                           "dense-yarn"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// The same checkpoints with int8 weights. Of the 2L norms whose result is quantised the first follows the embedding,
/// the others a sum.
class QuantizedCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedCheckpoint, EveryFusionIsMadeInEveryLayer) {
  StepHarness harness(pass_options(GetParam(), Mode::kFull, DType::kBF16));
  const int64_t layers = harness.model().info().layers;
  std::map<std::string, int64_t> matches = pass_matches(harness.runner().decode_pass_reports());
  EXPECT_EQ(matches["share_quantizations"], 3 * layers) << "q/k/v, and gate/up";
  EXPECT_EQ(matches["merge_linears"], 2 * layers) << "q/k/v, and gate/up";
  EXPECT_EQ(matches["add_rms_norm_dynamic_quantize"], 2 * layers - 1);
  EXPECT_EQ(matches["embedding_rms_norm_quantize"], 1);
  EXPECT_EQ(matches["split_qkv_rms_norm_rope"], layers);
  EXPECT_EQ(matches["swiglu_quantize"], layers);
  EXPECT_LE(launches(harness.runner().decode_graph()), 11 * layers + 4)
      << graph::to_text(harness.runner().decode_graph());
}

class QuantizedRows : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedRows, GiveTheSameBitsInEveryMode) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Outcome eager = run_passes(pass_options(GetParam(), Mode::kEager, dtype));
    for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
      EXPECT_EQ(run_passes(pass_options(GetParam(), mode, dtype)), eager) << name_of(mode) << " " << name_of(dtype);
    }
  }
}

/// Five rows in a bucket of eight: what lies in the padding (NaN, with poison) feeds no scale.
TEST_P(QuantizedRows, B39GiveTheSameBitsAloneAndInAPaddedBatch) {
  StepHarness::Options options = pass_options(GetParam(), Mode::kFull, DType::kBF16);
  options.max_running = 5;
  options.buckets = {1, 8};
  StepHarness together(options);
  StepHarness alone(options);
  std::vector<int32_t> sequences, tokens;
  for (int32_t sequence = 0; sequence < 5; ++sequence) {
    const std::vector<int32_t> prompt = {7 + sequence, 100, 3 * sequence, 500};
    EXPECT_EQ(together.feed(sequence, prompt), alone.feed(sequence, prompt));
    sequences.push_back(sequence);
    tokens.push_back(40 + 90 * sequence);
  }
  for (int step = 0; step < 3; ++step) {
    const Rows rows = together.decode(sequences, tokens);
    for (size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(alone.decode({sequences[i]}, {tokens[i]})[0], rows[i]) << "row " << i << " of step " << step;
      tokens[i] = (tokens[i] * 7 + 1) % 512;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, QuantizedRows,
                         ::testing::Values("dense-w8a8-static", "dense-w8a8-dynamic", "dense-w8a8-ct"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Models, QuantizedCheckpoint, ::testing::Values("dense-w8a8-dynamic", "dense-w8a8-ct"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Layers with experts: their int8 rows are quantised in the one operator that stands for them, and the norm in front
/// of them also feeds the router, in float. Layers between have a feed-forward as dense models do.
struct ExpertCase {
  const char* model;
  bool quantized;
};

class ExpertCheckpoint : public ::testing::TestWithParam<ExpertCase> {};

TEST_P(ExpertCheckpoint, EveryFusionIsMadeInEveryLayer) {
  const auto [model, quantized] = GetParam();
  StepHarness harness(pass_options(model, Mode::kFull, DType::kBF16));
  const load::ModelConfig config = load::ModelConfig::load(kPassModels / model);
  const int64_t layers = config.num_hidden_layers;
  int64_t sparse = 0;
  for (int64_t layer = 0; layer < layers; ++layer) sparse += config.is_sparse_layer(layer) ? 1 : 0;
  const int64_t dense = layers - sparse;
  std::map<std::string, int64_t> matches = pass_matches(harness.runner().decode_pass_reports());
  EXPECT_EQ(matches["moe_experts"], sparse);
  EXPECT_EQ(matches["merge_linears"], layers + dense) << "q/k/v, and gate/up without experts";
  EXPECT_EQ(matches["share_quantizations"], quantized ? 2 * layers + dense : 0);
  EXPECT_EQ(matches["embedding_rms_norm"], 1);
  EXPECT_EQ(matches["add_rms_norm"], 2 * layers);
  EXPECT_EQ(matches["add_rms_norm_dynamic_quantize"], quantized ? layers - 1 + dense : 0) << "but those of experts";
  EXPECT_EQ(matches["split_qkv_rms_norm_rope"], layers);
  EXPECT_EQ(matches["swiglu"], dense);
  EXPECT_EQ(matches["swiglu_quantize"], quantized ? dense : 0);
  EXPECT_LE(launches(harness.runner().decode_graph()), 16 * layers + 5)
      << graph::to_text(harness.runner().decode_graph());
}

TEST_P(ExpertCheckpoint, B56TheFusionOfExpertsAloneAndLeftOutGivesTheSameBits) {
  const auto [model, quantized] = GetParam();
  const Outcome eager = run_passes(pass_options(model, Mode::kEager, DType::kBF16));
  StepHarness harness(pass_options(model, Mode::kForceEager, DType::kBF16));
  StepHarness::Options without = pass_options(model, Mode::kFull, DType::kBF16);
  without.passes.disabled_passes = {"moe_experts"};
  EXPECT_EQ(run_passes(without), eager);
  StepHarness::Options alone = pass_options(model, Mode::kFull, DType::kBF16);
  for (const compile::PassReport& report : harness.runner().decode_pass_reports()) {
    if (report.pass != "moe_experts") alone.passes.disabled_passes.push_back(report.pass);
  }
  EXPECT_EQ(run_passes(alone), eager);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertCheckpoint,
                         ::testing::Values(ExpertCase{"moe", false}, ExpertCase{"moe-sparse-step", false},
                                           ExpertCase{"moe-w8a8-dynamic", true}, ExpertCase{"moe-w8a8-ct", true}),
                         [](const auto& tested) {
                           std::string name = tested.param.model;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Query, key and value have input scales of their own there, and so do gate and up: their inputs are other tensors,
/// and neither can the norm be fused with one of them nor the products be merged.
TEST(Passes, B32LayersWithOtherInputScalesStaySeparateWithTheReason) {
  StepHarness harness(pass_options("dense-w8a8-static", Mode::kFull, DType::kBF16));
  const int64_t layers = harness.model().info().layers;
  const std::vector<compile::PassReport>& reports = harness.runner().decode_pass_reports();
  std::map<std::string, int64_t> matches = pass_matches(reports);
  EXPECT_EQ(matches["share_quantizations"], 0);
  EXPECT_EQ(matches["merge_linears"], 0);
  EXPECT_EQ(matches["add_rms_norm_quantize"], 0);
  EXPECT_EQ(matches["embedding_rms_norm_quantize"], 0);
  EXPECT_EQ(matches["swiglu_quantize"], layers) << "down_proj is dynamic";
  int64_t refusals = 0;
  for (const compile::PassReport& report : reports) {
    if (report.pass != "share_quantizations") continue;
    for (const std::string& refusal : report.refusals) {
      refusals += refusal.find("other scales") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_EQ(refusals, 3 * layers);
}

TEST(Passes, B56EachAloneAndEachLeftOutGivesTheSameBits) {
  const Outcome eager = run_passes(pass_options("dense", Mode::kEager, DType::kBF16));
  std::vector<std::string> names;
  {
    StepHarness harness(pass_options("dense", Mode::kForceEager, DType::kBF16));
    for (const compile::PassReport& report : harness.runner().decode_pass_reports()) names.push_back(report.pass);
  }
  for (const std::string& name : names) {
    StepHarness::Options without = pass_options("dense", Mode::kFull, DType::kBF16);
    without.passes.disabled_passes = {name};
    EXPECT_EQ(run_passes(without), eager) << "without " << name;
    StepHarness::Options alone = pass_options("dense", Mode::kFull, DType::kBF16);
    for (const std::string& other : names) {
      if (other != name) alone.passes.disabled_passes.push_back(other);
    }
    EXPECT_EQ(run_passes(alone), eager) << name << " alone";
  }
}

TEST(Passes, AReplayedStepOfQwen3_0_6bTakesTenLaunchesALayerAndFour) {
  const load::ModelConfig config = load::ModelConfig::parse(R"({
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_act": "silu", "attention_bias": false,
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})");
  ops::Registry registry = ops::make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const auto model = model::plan_model(config, registry, *device);
  std::vector<Tensor> kv;
  for (const model::KvBuffer& buffer : model->kv_layout().buffers) {
    Shape shape = {64, 16};
    for (const Dim& dim : buffer.entry) shape.push_back(dim);
    kv.emplace_back(TensorMeta(buffer.dtype, shape), std::make_shared<Storage>(nullptr, 0));
  }
  RunnerOptions options;
  options.mode = Mode::kFull;
  options.buckets.max_running = 32;
  options.max_pages = 16;
  options.scratch_slots = 32;
  GraphRunner runner(
      registry, *device, [&](ops::ForwardContext& context) { return model->forward(context, kv); }, 151936,
      model->named_parameters(), options);
  EXPECT_LE(launches(runner.decode_graph()), 10 * 28 + 4);
}

}  // namespace reprise::replay
