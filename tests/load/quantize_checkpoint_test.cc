#include "load/quantize_checkpoint.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/quantized_tensors.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Convention = Quantization::Convention;

constexpr const char* kUp = "model.layers.0.mlp.up_proj";

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  return scale_values(checkpoint.at(name));
}

/// The checkpoint fits its own description, which is what loading asks for.
ModelConfig expect_fits(const std::filesystem::path& directory) {
  ModelConfig config = ModelConfig::load(directory);
  const Checkpoint checkpoint = Checkpoint::open(directory);
  EXPECT_NO_THROW(check_tensors(checkpoint, expected_tensors(config)));
  EXPECT_NO_THROW(check_quantized_values(checkpoint, config));
  EXPECT_TRUE(config.unused_keys.empty());
  return config;
}

/// A copy of a model with another config, and with tensors as `change` makes them.
void copy_model(const std::string& model, const std::filesystem::path& directory,
                const std::function<void(nlohmann::json& config)>& change_config,
                const std::function<void(std::map<std::string, StoredTensor>& tensors)>& change) {
  std::filesystem::create_directory(directory);
  nlohmann::json config = nlohmann::json::parse(read_file(reference_checkpoint(model) / "config.json"));
  change_config(config);
  write_text_file(directory / "config.json", config.dump());
  const Checkpoint source = Checkpoint::open(reference_checkpoint(model));
  std::map<std::string, StoredTensor> tensors;
  for (const StoredTensor& tensor : source.tensors()) tensors.emplace(tensor.name, tensor);
  change(tensors);
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(directory / "model.safetensors", specs);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor.bytes);
  writer.finish();
}

/// Every weight within half a step of the float one, and the largest of a row 127 steps.
void expect_nearest(const Checkpoint& exact, const Checkpoint& quantized, const std::string& source,
                    const std::string& layer) {
  const std::vector<float> floats = values_of(exact, source);
  const std::vector<float> bytes = values_of(quantized, layer + ".weight");
  const std::vector<float> scales = values_of(quantized, layer + ".weight_scale");
  const size_t columns = floats.size() / scales.size();
  for (size_t row = 0; row < scales.size(); ++row) {
    float largest = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      ASSERT_LE(std::abs(floats[i] - bytes[i] * scales[row]), scales[row] * 0.5001f) << layer << " row " << row;
      largest = std::max(largest, std::abs(bytes[i]));
    }
    EXPECT_EQ(largest, 127.0f) << layer << " row " << row;
  }
}

TEST(QuantizeCheckpoint, WritesBothConventionsWithWeightsToTheNearestStep) {
  for (const char* model : {"dense", "dense-tied-bias", "dense-sharded", "dense-mixed-dtype"}) {
    for (const Convention convention : {Convention::kModelSlim, Convention::kCompressedTensors}) {
      SCOPED_TRACE(model);
      TemporaryDirectory directory;
      QuantizeOptions options;
      options.convention = convention;
      const std::vector<LayerError> errors =
          quantize_checkpoint(reference_checkpoint(model), directory / "out", options);
      const ModelConfig config = expect_fits(directory / "out");
      EXPECT_EQ(config.quantization.convention(), convention);
      const Checkpoint exact = Checkpoint::open(reference_checkpoint(model));
      const Checkpoint quantized = Checkpoint::open(directory / "out");
      ASSERT_EQ(errors.size(), linear_layers(config).size());
      for (const LayerError& error : errors) {
        expect_nearest(exact, quantized, error.layer + ".weight", error.layer);
        EXPECT_GT(error.cosine, 0.9999);
        EXPECT_LT(error.cosine, 1.0);
        EXPECT_GT(error.largest, 0.0);
      }
      const StoredTensor& norm = quantized.at("model.norm.weight");
      EXPECT_TRUE(std::ranges::equal(norm.bytes, exact.at("model.norm.weight").bytes));
    }
  }
}

TEST(QuantizeCheckpoint, StaticLayersHoldTheScaleOfTheirInputAndTheBiasInSteps) {
  TemporaryDirectory directory;
  QuantizeOptions options;
  options.scheme = LinearScheme::kW8A8;
  const std::filesystem::path model = reference_checkpoint("dense-tied-bias");
  for (const std::string& layer : static_layers(model, options)) options.ranges[layer] = {-1.0f, 3.0f};
  EXPECT_FALSE(options.ranges.contains("model.layers.0.mlp.down_proj"));
  quantize_checkpoint(model, directory / "out", options);
  expect_fits(directory / "out");
  const Checkpoint quantized = Checkpoint::open(directory / "out");
  const std::string layer = "model.layers.0.self_attn.q_proj";
  EXPECT_EQ(quantized.find(layer + ".bias"), nullptr);
  EXPECT_EQ(values_of(quantized, layer + ".input_scale")[0], 4.0f / 255.0f);
  // -1 is 64 steps below zero (63.75 are rounded), which become -128.
  EXPECT_EQ(values_of(quantized, layer + ".input_offset")[0], -64.0f);
  const std::vector<float> bytes = values_of(quantized, layer + ".weight");
  const std::vector<float> steps = values_of(quantized, layer + ".deq_scale");
  const std::vector<float> scales = values_of(quantized, layer + ".weight_scale");
  const std::vector<float> sums = values_of(quantized, layer + ".quant_bias");
  const std::vector<float> bias = values_of(Checkpoint::open(model), layer + ".bias");
  const size_t columns = bytes.size() / steps.size();
  for (size_t n = 0; n < steps.size(); ++n) {
    EXPECT_EQ(steps[n], 4.0f / 255.0f * scales[n]);
    float sum = 0;
    for (size_t k = 0; k < columns; ++k) sum += bytes[n * columns + k];
    EXPECT_LE(std::abs((sums[n] - 64 * sum) * steps[n] - bias[n]), steps[n] * 0.51f);
  }
}

TEST(QuantizeCheckpoint, AHeadTiedToTheEmbeddingBecomesAWeightOfItsOwn) {
  for (const Convention convention : {Convention::kModelSlim, Convention::kCompressedTensors}) {
    TemporaryDirectory directory;
    QuantizeOptions options;
    options.convention = convention;
    options.head = true;
    quantize_checkpoint(reference_checkpoint("dense-tied-bias"), directory / "out", options);
    const ModelConfig config = expect_fits(directory / "out");
    EXPECT_FALSE(config.tie_word_embeddings);
    EXPECT_TRUE(quantizes_head(config));
    const Checkpoint quantized = Checkpoint::open(directory / "out");
    expect_nearest(Checkpoint::open(reference_checkpoint("dense-tied-bias")), quantized, "model.embed_tokens.weight",
                   "lm_head");
    EXPECT_EQ(quantized.at("model.embed_tokens.weight").dtype, DType::kBF16);
  }
}

TEST(QuantizeCheckpoint, AHeadThatAConfigTiesButTheFileHoldsIsQuantisedAsItIs) {
  for (const Convention convention : {Convention::kModelSlim, Convention::kCompressedTensors}) {
    // The same numbers as the embedding's, and others.
    for (const char* source : {"model.embed_tokens.weight", "lm_head.weight"}) {
      TemporaryDirectory directory;
      copy_model(
          "dense", directory / "in", [](nlohmann::json& config) { config["tie_word_embeddings"] = true; },
          [&](auto& tensors) { tensors["lm_head.weight"] = tensors.at(source); });
      QuantizeOptions options;
      options.convention = convention;
      options.head = true;
      quantize_checkpoint(directory / "in", directory / "out", options);
      EXPECT_FALSE(expect_fits(directory / "out").tie_word_embeddings);
      expect_nearest(Checkpoint::open(reference_checkpoint("dense")), Checkpoint::open(directory / "out"), source,
                     "lm_head");
    }
  }
}

TEST(QuantizeCheckpoint, AHeadThatIsIgnoredStaysFloatWhateverElseIsAskedFor) {
  for (const Convention convention : {Convention::kModelSlim, Convention::kCompressedTensors}) {
    for (const char* model : {"dense", "dense-tied-bias"}) {
      TemporaryDirectory directory;
      QuantizeOptions options;
      options.convention = convention;
      options.head = true;
      options.ignore = {"lm_head"};
      quantize_checkpoint(reference_checkpoint(model), directory / "out", options);
      const ModelConfig config = expect_fits(directory / "out");
      EXPECT_FALSE(quantizes_head(config));
      EXPECT_EQ(config.tie_word_embeddings, ModelConfig::load(reference_checkpoint(model)).tie_word_embeddings);
    }
  }
}

TEST(QuantizeCheckpoint, ADirectoryWithAFileThatWouldBeReadWithTheModelIsRefused) {
  for (const char* name : {"config.json", "quant_model_description.json", "quant_model_description_w8a8.json",
                           "quant_model_weights.safetensors.index.json", "model-00001-of-00002.safetensors"}) {
    TemporaryDirectory directory;
    write_text_file(directory / name, "{}");
    const Error error = error_of([&] { quantize_checkpoint(reference_checkpoint("dense"), directory.path(), {}); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(name));
    EXPECT_FALSE(std::filesystem::exists(directory / "model.safetensors"));
  }
}

TEST(QuantizeCheckpoint, LeavesItsInputAloneBehindADirectoryThatIsNotThereYet) {
  TemporaryDirectory directory;
  const std::filesystem::path model = directory / "model";
  std::filesystem::copy(reference_checkpoint("dense"), model);
  std::filesystem::permissions(model, std::filesystem::perms::owner_all, std::filesystem::perm_options::add);
  const std::filesystem::path output = directory / "new/../model";
  const uintmax_t bytes = std::filesystem::file_size(model / "model.safetensors");
  for (const Error& error : {error_of([&] { check_quantize_checkpoint(model, output, {}); }),
                             error_of([&] { quantize_checkpoint(model, output, {}); })}) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("already holds a model"));
  }
  EXPECT_EQ(std::filesystem::file_size(model / "model.safetensors"), bytes);
}

TEST(QuantizeCheckpoint, ASecondRunIntoTheSameDirectoryIsRefused) {
  TemporaryDirectory directory;
  QuantizeOptions options;
  std::string refused;
  options.progress = [&](const std::string&, uint64_t, uint64_t) {
    if (!refused.empty()) return;
    refused = error_of([&] { quantize_checkpoint(reference_checkpoint("dense"), directory / "out", {}); }).what();
  };
  quantize_checkpoint(reference_checkpoint("dense"), directory / "out", options);
  EXPECT_THAT(refused, HasSubstr("another writes it"));
  EXPECT_TRUE(Checkpoint::open(directory / "out").total_bytes() > 0);
  EXPECT_THAT(error_of([&] { quantize_checkpoint(reference_checkpoint("dense"), directory / "out", {}); }).what(),
              HasSubstr("already holds a model"));
}

TEST(QuantizeCheckpoint, LayersMayStayFloat) {
  for (const Convention convention : {Convention::kModelSlim, Convention::kCompressedTensors}) {
    TemporaryDirectory directory;
    QuantizeOptions options;
    options.convention = convention;
    options.ignore = {"model\\.layers\\.0\\.self_attn", "re:.*down_proj$"};
    quantize_checkpoint(reference_checkpoint("dense"), directory / "out", options);
    const ModelConfig config = expect_fits(directory / "out");
    EXPECT_EQ(config.quantization.scheme_of("model.layers.0.self_attn.k_proj"), LinearScheme::kFloat);
    EXPECT_EQ(config.quantization.scheme_of("model.layers.1.self_attn.k_proj"), LinearScheme::kW8A8Dynamic);
    EXPECT_EQ(config.quantization.scheme_of("model.layers.1.mlp.down_proj"), LinearScheme::kFloat);
  }
}

TEST(QuantizeCheckpoint, RefusesWhatCannotBeDoneAndLeavesNoModel) {
  TemporaryDirectory directory;
  const auto refused = [&](const QuantizeOptions& options, const std::filesystem::path& model) {
    const Error error = error_of([&] { quantize_checkpoint(model, directory / "out", options); });
    EXPECT_FALSE(std::filesystem::exists(directory / "out" / "config.json"));
    EXPECT_FALSE(std::filesystem::exists(directory / "out" / "model.safetensors"));
    EXPECT_TRUE(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kCancelled);
    return std::string(error.what());
  };
  const std::filesystem::path dense = reference_checkpoint("dense");
  QuantizeOptions options;
  EXPECT_THAT(refused(options, reference_checkpoint("dense-w8a8-ct")), HasSubstr("quantises the model already"));
  options.ignore = {"mlp.down_proj"};
  EXPECT_THAT(refused(options, dense), HasSubstr("\"mlp.down_proj\""));
  options.ignore = {".*q_proj"};
  EXPECT_THAT(refused(options, dense), AllOf(HasSubstr("q_proj"), HasSubstr("computed with it")));
  EXPECT_THAT(refused(options, dense), Not(HasSubstr("no linear layer")));
  for (const char* all : {"", "model"}) {
    options.ignore = {all};
    EXPECT_THAT(refused(options, dense), HasSubstr("no layer is left"));
  }
  options.ignore = {};
  options.scheme = LinearScheme::kW8A8;
  EXPECT_THAT(refused(options, dense), HasSubstr("no range for the input of"));
  options.convention = Convention::kCompressedTensors;
  EXPECT_THAT(refused(options, dense), HasSubstr("a scale for each token only"));
  options = {};
  options.progress = [](const std::string& name, uint64_t, uint64_t) {
    if (name == kUp) throw Error(ErrorCode::kCancelled, "stopped");
  };
  EXPECT_EQ(refused(options, dense), "stopped");
}

TEST(QuantizeCheckpoint, AWeightThatIsNoNumberIsRefusedByName) {
  TemporaryDirectory directory;
  std::vector<std::byte> bytes;
  copy_model(
      "dense", directory / "in", [](nlohmann::json&) {},
      [&](auto& tensors) {
        StoredTensor& tensor = tensors.at(std::string(kUp) + ".weight");
        bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
        const uint16_t infinity = 0x7F80;
        std::memcpy(bytes.data() + 96 * 2 * 5, &infinity, 2);
        tensor.bytes = bytes;
      });
  const Error error = error_of([&] { quantize_checkpoint(directory / "in", directory / "out", {}); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(kUp), HasSubstr("row 5")));
}

}  // namespace
}  // namespace reprise::load
