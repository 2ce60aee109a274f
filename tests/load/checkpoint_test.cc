#include "load/checkpoint.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/model_config.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

/// A copy of the sharded reference checkpoint, to damage.
class ShardedCopy : public TemporaryDirectory {
 public:
  ShardedCopy() { std::filesystem::copy(reference_checkpoint("dense-sharded"), path()); }

  Error refused() const {
    return error_of([&] { Checkpoint::open(path()); });
  }
  void edit_index(const std::function<void(json&)>& edit) const {
    json index = json::parse(read_file(*this / kIndex));
    edit(index);
    write_text_file(*this / kIndex, index.dump());
  }
};

TEST(Checkpoint, OpensADirectoryAFileAndShards) {
  const Checkpoint directory = Checkpoint::open(reference_checkpoint("dense"));
  const Checkpoint file = Checkpoint::open(reference_checkpoint("dense") / "model.safetensors");
  const Checkpoint sharded = Checkpoint::open(reference_checkpoint("dense-sharded"));
  EXPECT_EQ(directory.tensors().size(), file.tensors().size());
  EXPECT_EQ(sharded.total_bytes(), 696000u);
  EXPECT_EQ(sharded.at("model.layers.2.self_attn.v_proj.weight").shape, (Shape{64, 96}));
  EXPECT_EQ(sharded.at("model.norm.weight").shape, (Shape{96}));
  EXPECT_EQ(sharded.find("expected"), nullptr);
  EXPECT_THAT(error_of([&] { sharded.at("x"); }).what(), HasSubstr("dense-sharded has no tensor \"x\""));
}

TEST(Checkpoint, B23AnAbsentShardIsReported) {
  ShardedCopy copy;
  std::filesystem::remove(copy / kSecond);
  EXPECT_EQ(copy.refused().code(), ErrorCode::kNotFound);
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(kSecond), Not(HasSubstr(kFirst)), HasSubstr(kIndex)));
}

TEST(Checkpoint, B23CutEmptyAndPointerShardsAreReported) {
  ShardedCopy copy;
  std::filesystem::resize_file(copy / kSecond, std::filesystem::file_size(copy / kSecond) - 1);
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(kSecond), HasSubstr("beyond the")));
  write_text_file(copy / kSecond, "");
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(kSecond), HasSubstr("0 bytes")));
  write_text_file(copy / kSecond, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 377416\n");
  EXPECT_THAT(copy.refused().what(),
              AllOf(HasSubstr(kSecond), HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
}

TEST(Checkpoint, B23AllProblemsComeInOneLine) {
  ShardedCopy copy;
  std::filesystem::remove(copy / kFirst);
  write_text_file(copy / kSecond, "");
  const std::string message = copy.refused().what();
  EXPECT_THAT(message, AllOf(HasSubstr(kFirst), HasSubstr(kSecond), Not(HasSubstr("\n"))));
}

TEST(Checkpoint, B23EntriesThatAreNotInTheirShardAreReported) {
  ShardedCopy copy;
  copy.edit_index([](json& index) { index["weight_map"]["model.norm.weight"] = kFirst; });
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(std::string(kFirst) + " has no tensor \"model.norm.weight\""),
                                           HasSubstr(std::string(kSecond) + " has the tensor \"model.norm.weight\"")));
  copy.edit_index([](json& index) { index["weight_map"].erase("model.norm.weight"); });
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("does not place there")));
}

TEST(Checkpoint, B23NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "a\\b"}) {
    ShardedCopy copy;
    copy.edit_index([&](json& index) { index["weight_map"]["model.norm.weight"] = name; });
    EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("not a file name"))) << name;
  }
}

TEST(Checkpoint, B23BrokenIndexesAreRefused) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"w":7}})",
                           R"({"weight_map":{"w":"a.safetensors","w":"b.safetensors"}})"}) {
    ShardedCopy copy;
    write_text_file(copy / kIndex, text);
    EXPECT_EQ(copy.refused().code(), ErrorCode::kCorruptData) << text;
    EXPECT_THAT(copy.refused().what(), HasSubstr(kIndex)) << text;
  }
}

TEST(Checkpoint, B23DirectoriesWithoutWeightsAreRefused) {
  TemporaryDirectory directory;
  const auto refused = [&] { return error_of([&] { Checkpoint::open(directory.path()); }); };
  EXPECT_EQ(refused().code(), ErrorCode::kNotFound);
  EXPECT_THAT(refused().what(), AllOf(HasSubstr("model.safetensors"), HasSubstr(kIndex)));
  write_text_file(directory / "pytorch_model.bin", "x");
  EXPECT_THAT(refused().what(), HasSubstr("pytorch_model.bin"));
  EXPECT_EQ(error_of([&] { Checkpoint::open(directory / "missing"); }).code(), ErrorCode::kNotFound);
}

// ---- what a model expects ----

TEST(CheckTensors, EveryReferenceCheckpointFitsItsConfig) {
  for (const char* name : {"dense", "dense-tied-bias", "dense-yarn", "dense-sharded", "dense-mixed-dtype"}) {
    const Checkpoint checkpoint = Checkpoint::open(reference_checkpoint(name));
    EXPECT_NO_THROW(check_tensors(checkpoint, expected_tensors(ModelConfig::load(reference_checkpoint(name))))) << name;
  }
  const auto mini = std::filesystem::path(REPRISE_SOURCE_DIR) / "models" / "mini";
  EXPECT_NO_THROW(check_tensors(Checkpoint::open(mini), expected_tensors(ModelConfig::load(mini))));
}

/// A checkpoint of the given tensors, filled with zeros, except for the bytes of `marked`, which are 1.
Checkpoint make_checkpoint(const TemporaryDirectory& directory, std::vector<TensorSpec> tensors,
                           const std::string& marked = "") {
  const std::filesystem::path path = directory / "made.safetensors";
  SafetensorsWriter writer(path, tensors);
  for (const TensorSpec& tensor : tensors) {
    const size_t bytes = static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype);
    writer.write(tensor.name,
                 std::vector<std::byte>(bytes, std::byte{tensor.name == marked ? uint8_t{1} : uint8_t{0}}));
  }
  writer.finish();
  return Checkpoint::open(path);
}

std::vector<TensorSpec> specs_of(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    if (tensor.required) specs.push_back({tensor.name, DType::kBF16, tensor.shape});
  }
  return specs;
}

ModelConfig small_config(const std::string& more = "") {
  return ModelConfig::parse(R"({"model_type":"qwen3","vocab_size":8,"hidden_size":6,"intermediate_size":4,)"
                            R"("num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4)" +
                            more + "}");
}

TEST(CheckTensors, ReportsEverythingInOneMessage) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config();
  std::vector<TensorSpec> specs = specs_of(config);
  std::erase_if(specs, [](const TensorSpec& tensor) { return tensor.name.find("q_norm") != std::string::npos; });
  for (TensorSpec& tensor : specs) {
    if (tensor.name == "model.norm.weight") tensor.shape = Shape{7};
    if (tensor.name == "model.layers.0.mlp.up_proj.weight") tensor.dtype = DType::kI64;
  }
  specs.push_back({"model.layers.1.input_layernorm.weight", DType::kBF16, Shape{6}});
  const Checkpoint checkpoint = make_checkpoint(directory, specs);
  const Error error = error_of([&] { check_tensors(checkpoint, expected_tensors(config)); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("\"model.layers.0.self_attn.q_norm.weight\" is missing"),
                                  HasSubstr("\"model.norm.weight\" has the shape [7], not [6]"),
                                  HasSubstr("\"model.layers.0.mlp.up_proj.weight\" is I64, not F32, BF16 or F16"),
                                  HasSubstr("\"model.layers.1.input_layernorm.weight\" is not part of this model")));
}

TEST(CheckTensors, B22IntegersWhereAWeightIsExpectedAreRefusedAndAMixOfFloatsLoads) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config();
  std::vector<TensorSpec> specs = specs_of(config);
  for (TensorSpec& tensor : specs) {
    if (tensor.name.ends_with("norm.weight")) tensor.dtype = DType::kF32;
    if (tensor.name.find(".mlp.") != std::string::npos) tensor.dtype = DType::kF16;
  }
  EXPECT_NO_THROW(check_tensors(make_checkpoint(directory, specs), expected_tensors(config)));
  for (const DType dtype : {DType::kI64, DType::kI8, DType::kU8, DType::kI32, DType::kBool}) {
    specs.front().dtype = dtype;
    const Checkpoint checkpoint = make_checkpoint(directory, specs);
    EXPECT_THAT(error_of([&] { check_tensors(checkpoint, expected_tensors(config)); }).what(),
                HasSubstr(specs.front().name));
  }
}

TEST(CheckTensors, SavedRotaryBuffersAreHarmless) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config();
  std::vector<TensorSpec> specs = specs_of(config);
  specs.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kF32, Shape{2}});
  EXPECT_NO_THROW(check_tensors(make_checkpoint(directory, specs), expected_tensors(config)));
}

TEST(CheckTensors, B29AttentionBiasAndBiasTensorsMustAgree) {
  TemporaryDirectory directory;
  const ModelConfig with = small_config(R"(,"attention_bias":true)");
  const ModelConfig without = small_config();
  const Checkpoint biased = make_checkpoint(directory, specs_of(with));
  EXPECT_NO_THROW(check_tensors(biased, expected_tensors(with)));
  EXPECT_THAT(error_of([&] { check_tensors(biased, expected_tensors(without)); }).what(),
              HasSubstr("q_proj.bias\" is not part of this model"));
  const Checkpoint plain = make_checkpoint(directory, specs_of(without));
  EXPECT_THAT(error_of([&] { check_tensors(plain, expected_tensors(with)); }).what(),
              AllOf(HasSubstr("q_proj.bias\" is missing"), HasSubstr("o_proj.bias\" is missing")));
}

TEST(CheckTensors, B25TiedWithoutAHeadTakesTheEmbedding) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config(R"(,"tie_word_embeddings":true)");
  const Checkpoint checkpoint = make_checkpoint(directory, specs_of(config));
  EXPECT_EQ(checkpoint.find("lm_head.weight"), nullptr);
  ASSERT_NO_THROW(check_tensors(checkpoint, expected_tensors(config)));
  const HeadChoice choice = choose_head(checkpoint, config);
  EXPECT_EQ(choice.tensor->name, "model.embed_tokens.weight");
  EXPECT_TRUE(choice.tied);
  EXPECT_FALSE(choice.contradicts_config);
}

TEST(CheckTensors, B25TiedWithAnotherHeadKeepsThatHead) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config(R"(,"tie_word_embeddings":true)");
  std::vector<TensorSpec> specs = specs_of(config);
  specs.push_back({"lm_head.weight", DType::kBF16, Shape{8, 6}});
  const Checkpoint different = make_checkpoint(directory, specs, "lm_head.weight");
  ASSERT_NO_THROW(check_tensors(different, expected_tensors(config)));
  EXPECT_EQ(choose_head(different, config).tensor->name, "lm_head.weight");
  EXPECT_TRUE(choose_head(different, config).contradicts_config);
  EXPECT_FALSE(choose_head(different, config).tied);
  const Checkpoint redundant = make_checkpoint(directory, specs);
  EXPECT_TRUE(choose_head(redundant, config).tied);
  EXPECT_FALSE(choose_head(redundant, config).contradicts_config);
}

TEST(CheckTensors, B25UntiedNeedsItsOwnHead) {
  TemporaryDirectory directory;
  const ModelConfig config = small_config();  // without the key, which defaults to false
  ASSERT_FALSE(config.tie_word_embeddings);
  const Checkpoint with = make_checkpoint(directory, specs_of(config));
  EXPECT_EQ(choose_head(with, config).tensor->name, "lm_head.weight");
  EXPECT_FALSE(choose_head(with, config).tied);
  const Checkpoint without = make_checkpoint(directory, specs_of(small_config(R"(,"tie_word_embeddings":true)")));
  EXPECT_THAT(error_of([&] { check_tensors(without, expected_tensors(config)); }).what(),
              HasSubstr("\"lm_head.weight\" is missing"));
}

TEST(CheckTensors, NamesTheExpertsOfSparseLayers) {
  const ModelConfig config =
      ModelConfig::parse(R"({"model_type":"qwen3_moe","num_hidden_layers":2,"decoder_sparse_step":2,"num_experts":4,)"
                         R"("num_experts_per_tok":2,"moe_intermediate_size":48,"hidden_size":64,"head_dim":16})");
  std::map<std::string, Shape> shapes;
  for (const ExpectedTensor& tensor : expected_tensors(config)) shapes[tensor.name] = tensor.shape;
  EXPECT_EQ(shapes.at("model.layers.0.mlp.up_proj.weight"), (Shape{6144, 64}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.gate.weight"), (Shape{4, 64}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.experts.3.down_proj.weight"), (Shape{64, 48}));
  EXPECT_FALSE(shapes.contains("model.layers.1.mlp.up_proj.weight"));
  const ModelConfig absurd =
      ModelConfig::parse(R"({"model_type":"qwen3_moe","num_hidden_layers":65536,"num_experts":65536})");
  EXPECT_EQ(error_of([&] { expected_tensors(absurd); }).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace reprise::load
