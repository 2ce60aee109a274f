#include "load/quantization.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "load/check_tensors.h"
#include "load/quantized_tensors.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDescription = "quant_model_description.json";
constexpr const char* kGate = "model.layers.1.mlp.gate_proj";

json config_of(const std::string& model) { return json::parse(read_file(reference_checkpoint(model) / "config.json")); }

void check(const std::filesystem::path& directory) {
  const ModelConfig config = ModelConfig::load(directory);
  const Checkpoint checkpoint = Checkpoint::open(directory);
  check_tensors(checkpoint, expected_tensors(config));
  check_quantized_values(checkpoint, config);
}

/// A tensor to write, with its data.
struct Written {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

template <typename T>
Written make_tensor(DType dtype, const Shape& shape, const std::vector<T>& values) {
  Written written{dtype, shape, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(written.bytes.data(), values.data(), written.bytes.size());
  return written;
}

/// A copy of a reference checkpoint whose tensors and descriptions can be changed.
class Copy : public TemporaryDirectory {
 public:
  explicit Copy(const std::string& model) : checkpoint_(Checkpoint::open(reference_checkpoint(model))) {
    std::filesystem::copy(reference_checkpoint(model) / "config.json", *this / "config.json");
    if (std::filesystem::exists(reference_checkpoint(model) / kDescription)) {
      std::filesystem::copy(reference_checkpoint(model) / kDescription, *this / kDescription);
    }
    for (const StoredTensor& tensor : checkpoint_.tensors()) {
      tensors[tensor.name] = {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
    }
  }

  std::map<std::string, Written> tensors;

  void edit(const char* file, const std::function<void(json&)>& change) const {
    json document = json::parse(read_file(*this / file));
    change(document);
    write_text_file(*this / file, document.dump());
  }
  void write() const {
    std::vector<TensorSpec> specs;
    for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
    SafetensorsWriter writer(*this / "model.safetensors", specs);
    for (const auto& [name, tensor] : tensors) writer.write(name, tensor.bytes);
    writer.finish();
  }
  Error refused() const {
    write();
    return error_of([&] { check(path()); });
  }

 private:
  Checkpoint checkpoint_;
};

Error refused_config(const std::function<void(json&)>& change) {
  json document = config_of("dense-w8a8-ct");
  change(document["quantization_config"]);
  return error_of([&] { ModelConfig::parse(document.dump()); });
}

TEST(Quantization, ReferenceCheckpointsOfBothConventionsFit) {
  for (const char* name : {"dense-w8a8-static", "dense-w8a8-dynamic", "dense-w8a8-ct"}) {
    EXPECT_NO_THROW(check(reference_checkpoint(name))) << name;
    EXPECT_TRUE(ModelConfig::load(reference_checkpoint(name)).unused_keys.empty()) << name;
  }
  EXPECT_FALSE(ModelConfig::load(reference_checkpoint("dense")).quantization.quantizes_anything());
}

TEST(Quantization, ReadsTheSchemeOfEachLayer) {
  const Quantization slim = ModelConfig::load(reference_checkpoint("dense-w8a8-static")).quantization;
  EXPECT_EQ(slim.convention(), Quantization::Convention::kModelSlim);
  EXPECT_EQ(slim.scheme_of("model.layers.0.self_attn.o_proj"), LinearScheme::kW8A8);
  EXPECT_EQ(slim.scheme_of("model.layers.0.mlp.down_proj"), LinearScheme::kW8A8Dynamic);
  EXPECT_EQ(slim.scheme_of("lm_head"), LinearScheme::kFloat);
  EXPECT_THAT(error_of([&] { slim.scheme_of("model.layers.7.mlp.down_proj"); }).what(),
              AllOf(HasSubstr(kDescription), HasSubstr("model.layers.7.mlp.down_proj.weight")));
  const Quantization compressed = ModelConfig::load(reference_checkpoint("dense-w8a8-ct")).quantization;
  EXPECT_EQ(compressed.convention(), Quantization::Convention::kCompressedTensors);
  EXPECT_EQ(compressed.scheme_of("model.layers.0.mlp.down_proj"), LinearScheme::kW8A8Dynamic);
  EXPECT_EQ(compressed.scheme_of("lm_head"), LinearScheme::kFloat);
}

TEST(Quantization, IgnoresByNameAndByExpressionFromTheBeginningOfAName) {
  json document = config_of("dense-w8a8-ct");
  document["quantization_config"]["ignore"] = {"lm_head", "re:.*mlp\\.down_proj$", "re:layers",
                                               "model.layers.1.mlp.up"};
  const Quantization quantization = ModelConfig::parse(document.dump()).quantization;
  EXPECT_EQ(quantization.scheme_of("model.layers.0.mlp.down_proj"), LinearScheme::kFloat);
  EXPECT_EQ(quantization.scheme_of("model.layers.1.mlp.up_proj"), LinearScheme::kW8A8Dynamic);
  // Two groups under any names, for some layers each.
  json& groups = document["quantization_config"]["config_groups"];
  groups["attention"] = groups["group_0"];
  groups["attention"]["targets"] = {"re:.*self_attn.*"};
  groups["group_0"]["targets"] = {"model.layers.0.mlp.up_proj"};
  const Quantization two = ModelConfig::parse(document.dump()).quantization;
  EXPECT_EQ(two.scheme_of("model.layers.5.self_attn.q_proj"), LinearScheme::kW8A8Dynamic);
  EXPECT_EQ(two.scheme_of("model.layers.0.mlp.up_proj"), LinearScheme::kW8A8Dynamic);
  EXPECT_EQ(two.scheme_of("model.layers.1.mlp.up_proj"), LinearScheme::kFloat);
}

TEST(Quantization, AnExpressionThatDoesNotCompileOrEndIsAnErrorWithItsText) {
  const Error broken = refused_config([](json& config) { config["ignore"] = {"re:(unclosed"}; });
  EXPECT_THAT(broken.what(), AllOf(HasSubstr("ignore"), HasSubstr("re:(unclosed")));
  EXPECT_EQ(broken.code(), ErrorCode::kUnsupported);
  const LayerPattern endless("re:(a+)+$", "test");
  EXPECT_EQ(error_of([&] { endless.matches(std::string(60, 'a') + "!"); }).code(), ErrorCode::kResourceExhausted);
}

TEST(Quantization, B35RefusesWhatIsNotComputedExactlyNamingTheKey) {
  const auto group = [](json& config) -> json& { return config["config_groups"]["group_0"]; };
  const std::pair<const char*, std::function<void(json&)>> cases[] = {
      {"weights.symmetric", [&](json& config) { group(config)["weights"]["symmetric"] = false; }},
      {"input_activations.symmetric", [&](json& config) { group(config)["input_activations"]["symmetric"] = false; }},
      {"input_activations.dynamic", [&](json& config) { group(config)["input_activations"]["dynamic"] = false; }},
      {"input_activations.strategy", [&](json& config) { group(config)["input_activations"]["strategy"] = "tensor"; }},
      {"weights.strategy", [&](json& config) { group(config)["weights"]["strategy"] = "group"; }},
      {"weights.num_bits", [&](json& config) { group(config)["weights"]["num_bits"] = 4; }},
      {"weights.type", [&](json& config) { group(config)["weights"]["type"] = "float"; }},
      {"weights.group_size", [&](json& config) { group(config)["weights"]["group_size"] = 128; }},
      {"input_activations", [&](json& config) { group(config)["input_activations"] = nullptr; }},
      {"output_activations", [&](json& config) { group(config)["output_activations"] = {{"num_bits", 8}}; }},
      {"quant_method", [&](json& config) { config["quant_method"] = "gptq"; }},
      {"format", [&](json& config) { config["format"] = "pack-quantized"; }},
      {"kv_cache_scheme", [&](json& config) { config["kv_cache_scheme"] = {{"num_bits", 8}}; }},
  };
  for (const auto& [key, change] : cases) {
    const Error error = refused_config(change);
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << key;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("quantization_config."), HasSubstr(key)));
  }
  EXPECT_THAT(refused_config([](json& config) { config.erase("config_groups"); }).what(), HasSubstr("config_groups"));
  EXPECT_THAT(refused_config([](json& config) { config["ignore"] = 3; }).what(), HasSubstr("ignore"));
}

TEST(Quantization, RefusesUnknownAndContradictingTypesNamingTheTensor) {
  Copy copy("dense-w8a8-static");
  copy.edit(kDescription, [](json& types) { types["model.layers.0.mlp.down_proj.weight"] = "W4A8_DYNAMIC"; });
  EXPECT_EQ(copy.refused().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr("model.layers.0.mlp.down_proj.weight"), HasSubstr("W4A8_DYN")));
  copy.edit(kDescription, [](json& types) {
    types["model.layers.0.mlp.down_proj.weight"] = "FLOAT";
    types["kv_quant_type"] = "C8";
  });
  EXPECT_THAT(copy.refused().what(), HasSubstr("kv_quant_type"));
  copy.edit(kDescription, [](json& types) { types.erase("kv_quant_type"); });
  EXPECT_THAT(copy.refused().what(), HasSubstr("model.layers.0.mlp.down_proj.weight_scale"));
}

TEST(Quantization, B32MixedSchemesAndADescriptionThatDoesNotMatchTheModelAreRefusedWithNames) {
  Copy copy("dense-w8a8-dynamic");
  const auto describe = [&](const std::string& layer, const char* type) {
    for (const char* suffix : {".weight", ".weight_scale", ".weight_offset"}) {
      copy.edit(kDescription, [&](json& types) { types[layer + suffix] = type; });
    }
  };
  // Mixed schemes in what is computed as one product.
  describe(kGate, "FLOAT");
  EXPECT_THAT(copy.refused().what(),
              AllOf(HasSubstr("up_proj is W8A8_DYNAMIC"), HasSubstr("gate_proj"), HasSubstr("is FLOAT")));
  describe(kGate, "W8A8_DYNAMIC");
  // The layers that come after such a pair are as good as they were.
  describe("model.layers.1.self_attn.q_proj", "FLOAT");
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr("k_proj is W8A8_DYNAMIC"), Not(HasSubstr("no linear layer"))));
  describe("model.layers.1.self_attn.q_proj", "W8A8_DYNAMIC");
  // Described as float, stored as int8.
  describe("model.layers.1.mlp.down_proj", "FLOAT");
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr("\"model.layers.1.mlp.down_proj.weight\" is I8"),
                                           HasSubstr("down_proj.weight_scale\" is not part")));
  describe("model.layers.1.mlp.down_proj", "W8A8_DYNAMIC");
  describe("model.embed_tokens", "W8A8_DYNAMIC");
  EXPECT_THAT(copy.refused().what(), HasSubstr("\"model.embed_tokens\" is quantised"));
  describe("model.embed_tokens", "FLOAT");
  copy.edit(kDescription, [](json& types) {
    for (const char* suffix : {".weight", ".weight_scale", ".weight_offset"}) {
      types.erase(std::string(kGate) + suffix);
    }
  });
  EXPECT_THAT(copy.refused().what(), HasSubstr("says nothing of model.layers.1.mlp.gate_proj.weight"));
}

TEST(Quantization, TwoDescriptionsOfOneModelAreRefused) {
  Copy copy("dense-w8a8-ct");
  write_text_file(copy / kDescription, "{}");
  EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(kDescription), HasSubstr("quantization_config")));
}

TEST(Quantization, FilesMayHaveTheNamesThatMsmodelslimGivesThem) {
  for (const std::string name : {"quant_model_weights", "quant_model_weight_w8a8_dynamic"}) {
    Copy copy("dense-w8a8-dynamic");
    copy.write();
    const std::string file = name + ".safetensors";
    std::filesystem::rename(copy / "model.safetensors", copy / file);
    std::filesystem::rename(copy / kDescription, copy / "quant_model_description_w8a8_dynamic.json");
    EXPECT_NO_THROW(check(copy.path()));
    json map;
    for (const auto& [tensor, written] : copy.tensors) map[tensor] = file;
    write_text_file(copy / (file + ".index.json"), json({{"weight_map", map}}).dump());
    EXPECT_NO_THROW(check(copy.path()));
    map.erase("lm_head.weight");
    write_text_file(copy / (file + ".index.json"), json({{"weight_map", map}}).dump());
    EXPECT_THAT(error_of([&] { check(copy.path()); }).what(), HasSubstr("lm_head.weight"));
    write_text_file(copy / "quant_model_weight_2.safetensors.index.json", "{}");
    EXPECT_THAT(error_of([&] { check(copy.path()); }).what(),
                AllOf(HasSubstr(file + ".index.json"), HasSubstr("quant_model_weight_2")));
  }
}

TEST(Quantization, B31ScalesOfEquivalentShapesAndEveryFloatTypeFitOthersDoNot) {
  Copy copy("dense-w8a8-ct");
  const std::string name = "model.layers.1.mlp.gate_proj.weight_scale";
  for (const Shape& shape : {Shape{160}, Shape{160, 1}, Shape{1, 160}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      copy.tensors[name] = {dtype, shape, std::vector<std::byte>(160 * size_of(dtype))};
      copy.write();
      EXPECT_NO_THROW(check(copy.path())) << shape.to_string() << name_of(dtype);
    }
  }
  for (const Shape& shape : {Shape{1}, Shape(), Shape{159}, Shape{160, 2}, Shape{1, 1, 160}}) {
    copy.tensors[name] = {DType::kF32, shape, std::vector<std::byte>(static_cast<size_t>(shape.elements()) * 4)};
    EXPECT_THAT(copy.refused().what(), AllOf(HasSubstr(name), HasSubstr(shape.to_string()), HasSubstr("[160, 1]")));
  }
}

TEST(Quantization, B31GroupsMayHaveAnyNameAndThereMayBeTwo) {
  json document = config_of("dense-w8a8-ct");
  json& groups = document["quantization_config"]["config_groups"];
  const json group = groups["group_0"];
  groups = {{"anything", group}};
  const std::string layer = "model.layers.0.mlp.down_proj";
  EXPECT_EQ(ModelConfig::parse(document.dump()).quantization.scheme_of(layer), LinearScheme::kW8A8Dynamic);
  groups["second"] = group;
  groups["second"]["targets"] = {"re:.*mlp.*"};
  EXPECT_EQ(ModelConfig::parse(document.dump()).quantization.scheme_of(layer), LinearScheme::kW8A8Dynamic);
  groups["second"]["weights"]["num_bits"] = 4;
  EXPECT_THAT(error_of([&] { ModelConfig::parse(document.dump()); }).what(),
              AllOf(HasSubstr("second"), HasSubstr("weights.num_bits")));
}

TEST(Quantization, B31ScalesOfOneForAllOutputsAreRefusedInBothConventions) {
  const std::string layer = "model.layers.1.mlp.gate_proj";
  const std::pair<const char*, std::string> cases[] = {
      {"dense-w8a8-ct", layer + ".weight_scale"},
      {"dense-w8a8-dynamic", layer + ".weight_scale"},
      {"dense-w8a8-static", layer + ".deq_scale"},
      {"dense-w8a8-static", layer + ".quant_bias"},
      {"moe-w8a8-ct", "model.layers.1.mlp.experts.3.up_proj.weight_scale"}};
  for (const auto& [model, name] : cases) {
    Copy copy(model);
    Written& scale = copy.tensors.at(name);
    scale = {scale.dtype, Shape{1}, std::vector<std::byte>(size_of(scale.dtype))};
    const Error error = copy.refused();
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << name;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr("has the shape [1]")));
    copy.tensors.erase(name);
    EXPECT_THAT(copy.refused().what(), HasSubstr(name + "\" is missing"));
  }
}

TEST(Quantization, B35AsymmetricWeightsAreRefusedNamingTheTensor) {
  const std::pair<const char*, const char*> cases[] = {{"dense-w8a8-ct", ".weight_zero_point"},
                                                       {"dense-w8a8-dynamic", ".weight_offset"},
                                                       {"moe-w8a8-ct", ".weight_zero_point"}};
  for (const auto& [model, suffix] : cases) {
    Copy copy(model);
    const bool experts = std::string_view(model).starts_with("moe");
    const std::string layer = experts ? "model.layers.1.mlp.experts.2.down_proj" : "model.layers.1.mlp.down_proj";
    const Shape shape{copy.tensors.at(layer + ".weight").shape[0], 1};
    std::vector<float> offsets(static_cast<size_t>(shape.elements()), 0.0f);
    copy.tensors[layer + suffix] = make_tensor(DType::kF32, shape, offsets);
    copy.write();
    EXPECT_NO_THROW(check(copy.path())) << model;
    offsets[5] = 12;
    copy.tensors[layer + suffix] = make_tensor(DType::kF32, shape, offsets);
    EXPECT_THAT(copy.refused().what(), HasSubstr(layer + suffix + "\"[5] is 12, not 0"));
  }
}

TEST(Quantization, ScalesMayBePackedInInt64) {
  const auto tensor = [](const Written& written) {
    return StoredTensor{"x", written.dtype, written.shape, written.bytes, nullptr};
  };
  const std::vector<uint64_t> packed = {std::bit_cast<uint32_t>(0.25f), std::bit_cast<uint32_t>(-3.0f)};
  EXPECT_THAT(scale_values(tensor(make_tensor(DType::kI64, Shape{2}, packed))), ElementsAre(0.25f, -3.0f));
  EXPECT_THAT(scale_values(tensor(make_tensor(DType::kI32, Shape{2}, std::vector<int32_t>{-7, 9}))),
              ElementsAre(-7.0f, 9.0f));
  EXPECT_THAT(scale_values(tensor(make_tensor(DType::kI8, Shape{1}, std::vector<int8_t>{-128}))), ElementsAre(-128.0f));
  EXPECT_THAT(scale_values(tensor(make_tensor(DType::kF32, Shape(), std::vector<float>{1.5f}))), ElementsAre(1.5f));

  Copy copy("dense-w8a8-static");
  const std::string name = "model.layers.0.mlp.up_proj.deq_scale";
  std::vector<uint64_t> scales(160, std::bit_cast<uint32_t>(0.5f));
  copy.tensors[name] = make_tensor(DType::kI64, Shape{160}, scales);
  copy.write();
  EXPECT_NO_THROW(check(copy.path()));
  scales[3] |= uint64_t{1} << 40;
  copy.tensors[name] = make_tensor(DType::kI64, Shape{160}, scales);
  EXPECT_THAT(copy.refused().what(), HasSubstr(name + "\"[3] is 0x1003f000000"));
}

TEST(Quantization, ValuesThatCannotBeComputedWithAreRefusedNamingTheTensor) {
  const std::string layer = "model.layers.0.self_attn.q_proj.";
  const auto refused = [&](const std::string& tensor, Written written) {
    Copy copy("dense-w8a8-static");
    copy.tensors[layer + tensor] = std::move(written);
    const Error error = copy.refused();
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(), HasSubstr(layer + tensor));
  };
  refused("input_scale", make_tensor(DType::kF32, Shape{1}, std::vector<float>{0}));
  refused("input_scale", make_tensor(DType::kF32, Shape{1}, std::vector<float>{-1}));
  refused("input_scale", make_tensor(DType::kF32, Shape{1}, std::vector<float>{INFINITY}));
  refused("input_scale", make_tensor(DType::kF32, Shape{2}, std::vector<float>{1, 1}));
  refused("input_offset", make_tensor(DType::kF32, Shape{1}, std::vector<float>{0.5f}));
  refused("input_offset", make_tensor(DType::kI32, Shape{1}, std::vector<int32_t>{128}));
  refused("quant_bias", make_tensor(DType::kF32, Shape{128}, std::vector<float>(128)));
  std::vector<float> values(128, 1.0f);
  values[77] = NAN;
  refused("deq_scale", make_tensor(DType::kF32, Shape{128}, values));
  values.assign(128, 0.0f);
  values[1] = 3;
  refused("weight_offset", make_tensor(DType::kF32, Shape{128, 1}, values));
}

TEST(Quantization, ABiasWithWhichASumCanLeaveInt32IsRefusedNamingTheTensor) {
  const std::string name = "model.layers.0.self_attn.k_proj.quant_bias";
  const int64_t largest = largest_quant_bias(96);
  EXPECT_EQ(largest, (int64_t{1} << 31) - 1 - 96 * 16384);
  for (const int64_t value : {largest + 1, -largest - 1, int64_t{INT32_MIN}, int64_t{INT32_MAX}}) {
    Copy copy("dense-w8a8-static");
    const auto bits = static_cast<int32_t>(value);
    std::memcpy(copy.tensors.at(name).bytes.data() + 4 * 5, &bits, sizeof(bits));
    EXPECT_THAT(copy.refused().what(), HasSubstr(fmt::format("\"{}\"[5] is {}", name, value)));
  }
  Copy copy("dense-w8a8-static");
  const auto bits = static_cast<int32_t>(-largest);
  std::memcpy(copy.tensors.at(name).bytes.data(), &bits, sizeof(bits));
  copy.write();
  EXPECT_NO_THROW(check(copy.path()));
}

TEST(Quantization, KeysOfADescriptionAreListedAsItsOwnAndGroupsAreRefused) {
  Copy copy("dense-w8a8-dynamic");
  copy.edit(kDescription, [](json& types) { types["group_size"] = 0, types["junk"] = 1; });
  copy.write();
  const ModelConfig config = ModelConfig::load(copy.path());
  EXPECT_THAT(config.unused_description_keys, ElementsAre("\"junk\""));
  EXPECT_TRUE(config.unused_keys.empty());
  copy.edit(kDescription, [](json& types) { types["group_size"] = 64; });
  const Error error = copy.refused();
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(kDescription), HasSubstr("group_size is 64")));
}

TEST(Quantization, ABiasOfANormIsExpectedWhereItIsDescribed) {
  Copy copy("dense-w8a8-dynamic");
  const std::string name = "model.layers.1.input_layernorm.bias";
  copy.tensors[name] = make_tensor(DType::kF32, Shape{96}, std::vector<float>(96));
  EXPECT_THAT(copy.refused().what(), HasSubstr(name + "\" is not part"));
  copy.edit(kDescription, [&](json& types) { types[name] = "FLOAT"; });
  copy.write();
  EXPECT_NO_THROW(check(copy.path()));
  copy.tensors.erase(name);
  EXPECT_THAT(copy.refused().what(), HasSubstr(name + "\" is missing"));
}

TEST(Quantization, AQuantisedHeadIsExpectedBesideATiedEmbedding) {
  Copy copy("dense-w8a8-dynamic");
  copy.edit("config.json", [](json& config) { config["tie_word_embeddings"] = true; });
  copy.edit(kDescription, [](json& types) {
    types["lm_head.weight"] = "W8A8_DYNAMIC";
    types["lm_head.weight_scale"] = "W8A8_DYNAMIC";
  });
  EXPECT_THAT(copy.refused().what(), HasSubstr("lm_head.weight_scale\" is missing"));
  copy.tensors["lm_head.weight"] = make_tensor(DType::kI8, Shape{512, 96}, std::vector<int8_t>(512 * 96));
  copy.tensors["lm_head.weight_scale"] = make_tensor(DType::kF32, Shape{512, 1}, std::vector<float>(512));
  copy.write();
  EXPECT_NO_THROW(check(copy.path()));
  EXPECT_FALSE(choose_head(Checkpoint::open(copy.path()), ModelConfig::load(copy.path())).tied);
}

TEST(Quantization, ExpertsWithOneScaleForAllTokensAreRefusedWithTheirNames) {
  Copy copy("moe-w8a8-dynamic");
  copy.edit(kDescription, [](json& description) {
    for (auto& [name, type] : description.items()) {
      if (name.starts_with("model.layers.1.mlp.experts.") && name.find("down_proj") != std::string::npos) type = "W8A8";
    }
  });
  const Error error = copy.refused();
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(kDescription), HasSubstr("model.layers.1.mlp.experts.0.down_proj is W8A8"),
                                  HasSubstr("W8A8_DYNAMIC")));
}

TEST(Quantization, ARouterIsFloatUnlessItsTensorOrAnythingElseSaysOtherwise) {
  const std::string router = "model.layers.1.mlp.gate";
  Copy compressed("moe-w8a8-ct");
  const auto edit = [&](const std::function<void(json&)>& change) {
    compressed.edit("config.json", [&](json& config) { change(config["quantization_config"]); });
  };
  // "Linear" may take it in or not, as libraries differ.
  edit([](json& config) { config["ignore"] = {"lm_head"}; });
  compressed.write();
  EXPECT_NO_THROW(check(compressed.path()));
  edit([](json& config) { config["config_groups"]["group_0"]["targets"] = {"Linear", "re:.*mlp.gate$"}; });
  EXPECT_THAT(compressed.refused().what(), HasSubstr(router + " is quantised, but routers stay float"));
  edit([](json& config) { config["ignore"] = {"lm_head", "model.layers.1.mlp.gate"}; });
  EXPECT_THAT(compressed.refused().what(), Not(HasSubstr(router)));
  edit([](json& config) { config["config_groups"]["group_0"]["targets"] = {"Linear"}; });
  compressed.tensors[router + ".weight"] =
      make_tensor(DType::kI8, compressed.tensors[router + ".weight"].shape, std::vector<int8_t>(8 * 96));
  EXPECT_THAT(compressed.refused().what(), HasSubstr("\"" + router + ".weight\" is I8"));
  Copy slim("moe-w8a8-dynamic");
  slim.edit(kDescription, [&](json& types) { types.erase(router + ".weight"); });
  EXPECT_THAT(slim.refused().what(), HasSubstr("says nothing of " + router + ".weight"));
  slim.edit(kDescription, [&](json& types) { types[router + ".weight"] = "W8A8_DYNAMIC"; });
  EXPECT_THAT(slim.refused().what(), HasSubstr(router + "\" is quantised"));
}

TEST(Quantization, AMissingExpertIsNamed) {
  for (const char* tensor : {"weight", "weight_scale"}) {
    const std::string name = fmt::format("model.layers.1.mlp.experts.3.up_proj.{}", tensor);
    Copy copy("moe-w8a8-dynamic");
    ASSERT_EQ(copy.tensors.erase(name), 1u);
    const Error error = copy.refused();
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(), HasSubstr("\"" + name + "\" is missing"));
  }
}

}  // namespace
}  // namespace reprise::load
