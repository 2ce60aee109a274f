#include "load/synthesize.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>

#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/convert.h"
#include "load/generation_config.h"
#include "load/model_shapes.h"
#include "load/quantized_tensors.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string dense_config() { return (data_directory() / "models" / "dense" / "config.json").string(); }

std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  convert_to_float(tensor.dtype, tensor.bytes, values);
  return values;
}

std::pair<double, double> mean_and_deviation(const std::vector<float>& values) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double mean = sum / static_cast<double>(values.size());
  return {mean, std::sqrt(squares / static_cast<double>(values.size()) - mean * mean)};
}

TEST(Synthesize, KnownShapesHaveThePublishedSizes) {
  EXPECT_THAT(known_shapes(),
              ElementsAre("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "qwen3-32b", "qwen3-moe-small"));
  EXPECT_EQ(config_of_shape("qwen3-100b"), std::nullopt);
  // Parameters as the model cards count them, the tied head once.
  const std::pair<const char*, double> counts[] = {{"qwen3-0.6b", 0.596e9}, {"qwen3-1.7b", 1.72e9},
                                                   {"qwen3-4b", 4.02e9},    {"qwen3-8b", 8.19e9},
                                                   {"qwen3-32b", 32.8e9},   {"qwen3-moe-small", 1.125e9}};
  for (const auto& [name, expected] : counts) {
    const ModelConfig config = ModelConfig::parse(*config_of_shape(name));
    double parameters = 0.0;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
      if (tensor.required) parameters += static_cast<double>(tensor.shape.elements());
    }
    EXPECT_NEAR(parameters / expected, 1.0, 0.005) << name;
    EXPECT_TRUE(config.unused_keys.empty()) << name;
    EXPECT_EQ(config.rope.theta, 1e6);
    EXPECT_EQ(config.tie_word_embeddings, std::string(name) != "qwen3-8b" && std::string(name) != "qwen3-32b");
  }
  EXPECT_THAT(GenerationConfig::parse(generation_config_of_shapes()).eos_token_ids, ElementsAre(151645, 151643));
}

TEST(Synthesize, MakesACheckpointThatLoads) {
  TemporaryDirectory directory;
  uint64_t last = 0;
  uint64_t total = 0;
  SynthesisOptions options;
  options.progress = [&](uint64_t written, uint64_t all) {
    EXPECT_GT(written, last);
    last = written;
    total = all;
  };
  synthesize_checkpoint(dense_config(), directory / "made", options);
  const ModelConfig config = ModelConfig::load(directory / "made");
  const Checkpoint checkpoint = Checkpoint::open(directory / "made");
  EXPECT_NO_THROW(check_tensors(checkpoint, expected_tensors(config)));
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, checkpoint.total_bytes());

  const auto [mean, deviation] = mean_and_deviation(values_of(checkpoint.at("model.embed_tokens.weight")));
  EXPECT_NEAR(mean, 0.0, 5e-4);
  EXPECT_NEAR(deviation, 0.02, 5e-4);
  const auto [norm_mean, norm_deviation] = mean_and_deviation(values_of(checkpoint.at("model.norm.weight")));
  EXPECT_NEAR(norm_mean, 1.0, 0.03);
  EXPECT_NEAR(norm_deviation, 0.05, 0.02);
}

TEST(Synthesize, ValuesDependOnSeedAndNameAloneNotOnShards) {
  TemporaryDirectory directory;
  SynthesisOptions options;
  options.seed = 7;
  synthesize_checkpoint(dense_config(), directory / "whole", options);
  options.max_shard_bytes = 100'000;
  synthesize_checkpoint(dense_config(), directory / "sharded", options);
  options.seed = 8;
  synthesize_checkpoint(dense_config(), directory / "other", options);
  const Checkpoint whole = Checkpoint::open(directory / "whole");
  const Checkpoint sharded = Checkpoint::open(directory / "sharded");
  const Checkpoint other = Checkpoint::open(directory / "other");
  EXPECT_TRUE(std::filesystem::exists(directory / "sharded/model.safetensors.index.json"));
  ASSERT_EQ(whole.tensors().size(), sharded.tensors().size());
  size_t differing = 0;
  for (const StoredTensor& tensor : whole.tensors()) {
    const StoredTensor& twin = sharded.at(tensor.name);
    ASSERT_EQ(tensor.bytes.size(), twin.bytes.size());
    EXPECT_EQ(std::memcmp(tensor.bytes.data(), twin.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
    differing += std::memcmp(tensor.bytes.data(), other.at(tensor.name).bytes.data(), tensor.bytes.size()) != 0;
  }
  EXPECT_EQ(differing, whole.tensors().size());
  // Two tensors of one shape are not the same numbers.
  EXPECT_NE(std::memcmp(whole.at("model.layers.0.mlp.up_proj.weight").bytes.data(),
                        whole.at("model.layers.1.mlp.up_proj.weight").bytes.data(), 1024),
            0);
}

TEST(Synthesize, AHollowCheckpointTakesNoDiskAndIsValid) {
  const TemporaryDirectory directory;
  for (const LinearScheme scheme : {LinearScheme::kFloat, LinearScheme::kW8A8, LinearScheme::kW8A8Dynamic}) {
    SCOPED_TRACE(name_of(scheme));
    const std::filesystem::path model = directory.path() / std::string(name_of(scheme));
    synthesize_hollow_checkpoint("qwen3-0.6b", model, scheme);
    const std::filesystem::path file = model / "model.safetensors";
    EXPECT_GE(std::filesystem::file_size(file), size_t{500} << 20);
    struct stat status = {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_LE(status.st_blocks * 512, int64_t{32} << 20);

    const Checkpoint checkpoint = Checkpoint::open(model);
    const ModelConfig config = ModelConfig::load(model);
    check_tensors(checkpoint, expected_tensors(config));
    check_quantized_values(checkpoint, config);
    const std::string layer = "model.layers.27.mlp.";
    EXPECT_EQ(config.quantization.quantizes_anything(), scheme != LinearScheme::kFloat);
    if (scheme != LinearScheme::kFloat) {
      EXPECT_EQ(config.quantization.scheme_of(layer + "up_proj"), scheme);
      EXPECT_EQ(config.quantization.scheme_of(layer + "down_proj"), LinearScheme::kW8A8Dynamic);
    }
    EXPECT_THAT(values_of(checkpoint.at("model.norm.weight")), ::testing::Each(1.0f));
  }
}

TEST(Synthesize, RefusesUnknownShapesAndOccupiedDirectories) {
  TemporaryDirectory directory;
  const Error unknown = error_of([&] { synthesize_checkpoint("qwen3-100b", directory / "x"); });
  EXPECT_EQ(unknown.code(), ErrorCode::kNotFound);
  EXPECT_THAT(unknown.what(), HasSubstr("qwen3-0.6b"));
  write_text_file(directory / "config.json", "{}");
  const Error occupied = error_of([&] { synthesize_checkpoint(dense_config(), directory.path()); });
  EXPECT_EQ(occupied.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(occupied.what(), HasSubstr("config.json"));
  EXPECT_EQ(read_file(directory / "config.json"), "{}");
}

TEST(Synthesize, RefusesAModelBehindADirectoryThatIsNotThereYet) {
  TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "model");
  write_text_file(directory / "model/model.safetensors", "trained");
  const std::filesystem::path output = directory / "new/../model";
  for (const auto& make : std::initializer_list<std::function<void()>>{
           [&] { synthesize_checkpoint(dense_config(), output); },
           [&] { synthesize_hollow_checkpoint(dense_config(), output, LinearScheme::kFloat); }}) {
    const Error error = error_of(make);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("already holds a model"));
    EXPECT_EQ(std::filesystem::file_size(directory / "model/model.safetensors"), 7u);
    EXPECT_FALSE(std::filesystem::exists(directory / "new"));
  }
}

TEST(Synthesize, AModelLargerThanTheDiskIsRefusedBeforeAnythingIsWritten) {
  TemporaryDirectory directory;
  write_text_file(directory / "huge.json", R"({"model_type":"qwen3","hidden_size":1048576,"num_hidden_layers":1000})");
  const Error error = error_of([&] { synthesize_checkpoint((directory / "huge.json").string(), directory / "out"); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
}

}  // namespace
}  // namespace reprise::load
