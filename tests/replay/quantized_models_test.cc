// Quantised models that are made for a test: layers of one input that share its static scale, norms with a bias.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <map>

#include "harness/step_harness.h"
#include "load/checkpoint.h"
#include "load/quantize_checkpoint.h"
#include "load/safetensors_writer.h"
#include "model/observe_inputs.h"

namespace reprise::replay {
namespace {

const std::filesystem::path kQuantizedModels = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models";
const std::vector<int32_t> kPrompt = {1, 17, 300, 4, 9, 511, 26};

/// A directory for a model, removed afterwards.
class ModelDirectory {
 public:
  ModelDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise_model_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  ~ModelDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

StepHarness::Options quantized_options(const std::filesystem::path& model, Mode mode) {
  StepHarness::Options options;
  options.model = model;
  options.mode = mode;
  options.dtype = DType::kBF16;
  options.max_running = 2;
  options.buckets = {1, 2};
  return options;
}

/// Logits of a prompt and of two decode steps.
std::vector<Rows> run_quantized(const std::filesystem::path& model, Mode mode) {
  StepHarness harness(quantized_options(model, mode));
  std::vector<Rows> logits = {harness.feed(0, kPrompt, 3, true)};
  for (const int32_t token : {5, 90}) logits.push_back(harness.decode({0}, {token}));
  return logits;
}

void expect_equal_bits_in_every_mode(const std::filesystem::path& model) {
  const std::vector<Rows> eager = run_quantized(model, Mode::kEager);
  for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull}) {
    EXPECT_EQ(run_quantized(model, mode), eager) << name_of(mode);
  }
}

std::map<std::string, int64_t> model_matches(const std::filesystem::path& model) {
  StepHarness harness(quantized_options(model, Mode::kFull));
  std::map<std::string, int64_t> matches;
  for (const compile::PassReport& report : harness.runner().decode_pass_reports()) {
    matches[report.pass] = report.matches;
  }
  return matches;
}

/// dense-w8a8-dynamic with biases of one value for every norm.
void write_with_norm_biases(const std::filesystem::path& directory, float value) {
  const std::filesystem::path source = kQuantizedModels / "dense-w8a8-dynamic";
  std::filesystem::copy(source / "config.json", directory / "config.json");
  const load::Checkpoint checkpoint = load::Checkpoint::open(source);
  std::vector<load::TensorSpec> specs;
  std::string described;
  for (const load::StoredTensor& tensor : checkpoint.tensors()) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
    if (!stem.ends_with("norm")) continue;
    specs.push_back({stem + ".bias", DType::kF32, tensor.shape});
    described += ", \"" + stem + ".bias\": \"FLOAT\"";
  }
  load::SafetensorsWriter writer(directory / "model.safetensors", specs);
  for (const load::TensorSpec& spec : specs) {
    const load::StoredTensor* tensor = checkpoint.find(spec.name);
    const std::vector<float> bias(tensor == nullptr ? static_cast<size_t>(spec.shape.elements()) : 0, value);
    writer.write(spec.name, tensor == nullptr ? std::as_bytes(std::span(bias)) : tensor->bytes);
  }
  writer.finish();
  std::ifstream file(source / "quant_model_description.json");
  std::string description((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  description.insert(description.rfind('}'), described);
  std::ofstream(directory / "quant_model_description.json") << description;
}

}  // namespace

TEST(QuantizedModels, StaticLayersOfOneInputMergeBehindANormThatQuantisesForThem) {
  ModelDirectory directory;
  load::QuantizeOptions options;
  options.scheme = load::LinearScheme::kW8A8;
  for (const std::string& layer : load::static_layers(kQuantizedModels / "dense", options)) {
    options.ranges[layer] =
        layer.ends_with("o_proj") ? load::ActivationRange{-2.0f, 3.0f} : load::ActivationRange{-5.0f, 4.0f};
  }
  const std::filesystem::path model = directory.path() / "out";
  load::quantize_checkpoint(kQuantizedModels / "dense", model, options);
  std::map<std::string, int64_t> matches = model_matches(model);
  const int64_t layers = StepHarness(quantized_options(model, Mode::kEager)).model().info().layers;
  EXPECT_EQ(matches["share_quantizations"], 3 * layers);
  EXPECT_EQ(matches["merge_linears"], 2 * layers);
  EXPECT_EQ(matches["add_rms_norm_quantize"], 2 * layers - 1) << "the first norm follows the embedding";
  EXPECT_EQ(matches["embedding_rms_norm_quantize"], 1);
  EXPECT_EQ(matches["swiglu_quantize"], layers);
  expect_equal_bits_in_every_mode(model);
}

/// Offsets of inputs far from zero, and weights whose columns do not sum up to zero: what the bias takes out again.
TEST(QuantizedModels, B35AsymmetricActivationsAreCloseToFloat) {
  ModelDirectory directory;
  load::QuantizeOptions options;
  options.scheme = load::LinearScheme::kW8A8;
  StepHarness exact(quantized_options(kQuantizedModels / "dense", Mode::kEager));
  std::vector<int32_t> text(40);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * 37 % 512);
  options.ranges = model::observe_linear_inputs(exact.model(), exact.registry(), exact.device(), {text});
  // All of the range above zero is never used.
  for (auto& [layer, range] : options.ranges) range.largest = std::max(range.largest, -3 * range.least);
  const std::filesystem::path path = directory.path() / "out";
  load::quantize_checkpoint(kQuantizedModels / "dense", path, options);
  StepHarness quantized(quantized_options(path, Mode::kFull));
  const Rows expected = exact.feed(0, text);
  const Rows found = quantized.feed(0, text);
  double dot = 0, a = 0, b = 0;
  for (size_t i = 0; i < expected[0].size(); ++i) {
    dot += static_cast<double>(expected[0][i]) * found[0][i];
    a += static_cast<double>(expected[0][i]) * expected[0][i];
    b += static_cast<double>(found[0][i]) * found[0][i];
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.999);
}

TEST(QuantizedModels, NormsAddTheBiasThatTheDescriptionNames) {
  ModelDirectory zeros, halves;
  write_with_norm_biases(zeros.path(), 0.0f);
  write_with_norm_biases(halves.path(), 0.5f);
  EXPECT_EQ(run_quantized(zeros.path(), Mode::kFull),
            run_quantized(kQuantizedModels / "dense-w8a8-dynamic", Mode::kFull));
  EXPECT_NE(run_quantized(halves.path(), Mode::kFull), run_quantized(zeros.path(), Mode::kFull));
  expect_equal_bits_in_every_mode(halves.path());
  std::map<std::string, int64_t> matches = model_matches(halves.path());
  const int64_t layers = StepHarness(quantized_options(halves.path(), Mode::kEager)).model().info().layers;
  EXPECT_EQ(matches["add_rms_norm_dynamic_quantize"], 2 * layers - 1);
  EXPECT_EQ(matches["embedding_rms_norm_quantize"], 1);
  EXPECT_EQ(matches["merge_linears"], 2 * layers);
  EXPECT_EQ(matches["swiglu_quantize"], layers);
}

}  // namespace reprise::replay
