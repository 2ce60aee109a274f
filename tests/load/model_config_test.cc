#include "load/model_config.h"

#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "load/generation_config.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json dense() { return json::parse(read_file(reference_checkpoint("dense") / "config.json")); }

ModelConfig parse(const json& document) { return ModelConfig::parse(document.dump()); }

ModelConfig parse_with(const char* key, const json& value) {
  json document = dense();
  document[key] = value;
  return parse(document);
}

Error refused_with(const char* key, const json& value) {
  return error_of([&] { parse_with(key, value); });
}

TEST(ModelConfig, ReadsAReferenceConfig) {
  const ModelConfig config = ModelConfig::load(reference_checkpoint("dense"));
  EXPECT_EQ(config.type, ModelType::kQwen3);
  EXPECT_EQ(config.vocab_size, 512);
  EXPECT_EQ(config.hidden_size, 96);
  EXPECT_EQ(config.intermediate_size, 160);
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.query_size(), 128);
  EXPECT_EQ(config.key_value_size(), 64);
  EXPECT_EQ(config.max_position_embeddings, 256);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.rope.type, RopeType::kDefault);
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
  EXPECT_THAT(config.unused_keys, IsEmpty());
  EXPECT_TRUE(ModelConfig::load(reference_checkpoint("dense-tied-bias")).attention_bias);
  EXPECT_TRUE(ModelConfig::load(reference_checkpoint("dense-tied-bias")).tie_word_embeddings);
}

TEST(ModelConfig, B26HeadDimIsTheFilesOrTheDefaultNeverTheQuotient) {
  EXPECT_EQ(parse(dense()).head_dim, 32);
  json document = dense();
  document.erase("head_dim");
  EXPECT_EQ(parse(document).head_dim, 128);
  for (const json& value : {json(nullptr), json(0), json(33), json(-2), json(32.0), json("32")}) {
    const Error error = refused_with("head_dim", value);
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << value;
    EXPECT_THAT(error.what(), HasSubstr("head_dim is")) << value;
  }
}

TEST(ModelConfig, B28WindowsThatNoLayerUsesAreHarmless) {
  json document = dense();
  document["use_sliding_window"] = false;
  document["sliding_window"] = 4096;
  EXPECT_NO_THROW(parse(document));
  document["use_sliding_window"] = true;
  document["sliding_window"] = 8;
  document["max_window_layers"] = 2;
  EXPECT_NO_THROW(parse(document));
  document["max_window_layers"] = 0;
  document["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_NO_THROW(parse(document));
  document["layer_types"] = nullptr;
  document["sliding_window"] = nullptr;
  EXPECT_NO_THROW(parse(document));
  document["sliding_window"] = 256;  // as long as the model's positions
  EXPECT_NO_THROW(parse(document));
}

TEST(ModelConfig, B28WindowsThatWouldChangeResultsAreRefusedByName) {
  json document = dense();
  document["use_sliding_window"] = true;
  document["sliding_window"] = 8;
  document["max_window_layers"] = 1;
  const Error window = error_of([&] { parse(document); });
  EXPECT_EQ(window.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(window.what(), AllOf(HasSubstr("use_sliding_window"), HasSubstr("8 positions")));
  document = dense();
  document["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(error_of([&] { parse(document); }).what(),
              AllOf(HasSubstr("layer_types"), HasSubstr("sliding_attention")));
  document["layer_types"] = {"full_attention"};
  EXPECT_THAT(error_of([&] { parse(document); }).what(), HasSubstr("layer_types"));
}

/// Compares what a config says with what it should say, all fields that a key can change.
void expect_same(const ModelConfig& a, const ModelConfig& b, const std::string& key) {
  EXPECT_EQ(a.vocab_size, b.vocab_size) << key;
  EXPECT_EQ(a.hidden_size, b.hidden_size) << key;
  EXPECT_EQ(a.intermediate_size, b.intermediate_size) << key;
  EXPECT_EQ(a.num_hidden_layers, b.num_hidden_layers) << key;
  EXPECT_EQ(a.num_attention_heads, b.num_attention_heads) << key;
  EXPECT_EQ(a.num_key_value_heads, b.num_key_value_heads) << key;
  EXPECT_EQ(a.head_dim, b.head_dim) << key;
  EXPECT_EQ(a.max_position_embeddings, b.max_position_embeddings) << key;
  EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps) << key;
  EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings) << key;
  EXPECT_EQ(a.attention_bias, b.attention_bias) << key;
  EXPECT_EQ(a.rope.theta, b.rope.theta) << key;
  EXPECT_EQ(a.dtype, b.dtype) << key;
  EXPECT_EQ(a.bos_token_id, b.bos_token_id) << key;
  EXPECT_EQ(a.eos_token_ids, b.eos_token_ids) << key;
}

TEST(ModelConfig, B29AMissingKeyGivesTheDefaultOfHuggingFace) {
  // The defaults of Qwen3Config, set by hand in what the full file gives. 4 heads have no 32 key heads: see below.
  const ModelConfig full = parse(dense());
  const struct {
    const char* key;
    std::function<void(ModelConfig&)> set;
  } defaults[] = {
      {"vocab_size", [](ModelConfig& c) { c.vocab_size = 151936; }},
      {"hidden_size", [](ModelConfig& c) { c.hidden_size = 4096; }},
      {"intermediate_size", [](ModelConfig& c) { c.intermediate_size = 22016; }},
      {"num_hidden_layers", [](ModelConfig& c) { c.num_hidden_layers = 32; }},
      {"num_attention_heads", [](ModelConfig& c) { c.num_attention_heads = 32; }},
      {"head_dim", [](ModelConfig& c) { c.head_dim = 128; }},
      {"max_position_embeddings", [](ModelConfig& c) { c.max_position_embeddings = 32768; }},
      {"rms_norm_eps", [](ModelConfig& c) { c.rms_norm_eps = 1e-6; }},
      {"tie_word_embeddings", [](ModelConfig& c) { c.tie_word_embeddings = false; }},
      {"attention_bias", [](ModelConfig& c) { c.attention_bias = false; }},
      {"rope_theta", [](ModelConfig& c) { c.rope.theta = 10000.0; }},
      {"torch_dtype", [](ModelConfig& c) { c.dtype.reset(); }},
      {"eos_token_id", [](ModelConfig& c) { c.eos_token_ids.clear(); }},
      {"bos_token_id", [](ModelConfig&) {}},
      {"hidden_act", [](ModelConfig&) {}},
      {"rope_scaling", [](ModelConfig&) {}},
      {"use_cache", [](ModelConfig&) {}},
      {"use_sliding_window", [](ModelConfig&) {}},
      {"sliding_window", [](ModelConfig&) {}},
      {"initializer_range", [](ModelConfig&) {}},
      {"attention_dropout", [](ModelConfig&) {}},
      {"architectures", [](ModelConfig&) {}},
  };
  for (const auto& [key, set] : defaults) {
    json document = dense();
    ASSERT_EQ(document.erase(key), 1u) << key;
    ModelConfig expected = full;
    set(expected);
    expect_same(parse(document), expected, key);
  }
  json document = dense();
  document.erase("num_key_value_heads");
  EXPECT_THAT(error_of([&] { parse(document); }).what(),
              AllOf(HasSubstr("num_key_value_heads"), HasSubstr("taken as 32")));
  document = dense();
  document.erase("model_type");
  EXPECT_THAT(error_of([&] { parse(document); }).what(), HasSubstr("model_type"));
  // Without any key but the type: all defaults.
  expect_same(ModelConfig::parse(R"({"model_type":"qwen3"})"), ModelConfig(), "all");
}

TEST(ModelConfig, B29NullIsNothingWhereHuggingFaceSaysSoAndAnErrorElsewhere) {
  for (const char* key : {"bos_token_id", "eos_token_id", "rope_scaling", "sliding_window", "torch_dtype",
                          "architectures", "layer_types", "rope_parameters", "pad_token_id", "quantization_config"}) {
    EXPECT_NO_THROW(parse_with(key, nullptr)) << key;
  }
  EXPECT_EQ(parse_with("num_key_value_heads", nullptr).num_key_value_heads, 4);
  for (const char* key :
       {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "head_dim", "hidden_act", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "attention_bias",
        "rope_theta", "use_sliding_window", "use_cache", "initializer_range", "attention_dropout"}) {
    EXPECT_THAT(refused_with(key, nullptr).what(), AllOf(HasSubstr(key), HasSubstr("null"))) << key;
  }
}

TEST(ModelConfig, B29WrongTypesAndValuesAreRefusedNamingKeyAndValue) {
  const json dense_document = dense();
  for (const auto& [key, value] : dense_document.items()) {
    for (const json& wrong : {json({{"a", 1}}), json("wrong\nvalue"), json(-7), json(1e300)}) {
      if (key == "rms_norm_eps" && wrong == 1e300) continue;
      if ((key == "rope_theta" || key == "initializer_range") && wrong == 1e300) continue;  // absurd, but a number
      const Error error = refused_with(key.c_str(), wrong);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("config.json"), HasSubstr(key))) << wrong;
    }
    EXPECT_THAT(refused_with(key.c_str(), json({true})).what(), HasSubstr(key));
  }
  EXPECT_THAT(refused_with("vocab_size", 4294967296).what(), HasSubstr("4294967296"));
  EXPECT_THAT(refused_with("vocab_size", true).what(), HasSubstr("vocab_size is true"));
  EXPECT_THAT(refused_with("num_key_value_heads", 3).what(), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refused_with("rms_norm_eps", 2.0).what(), HasSubstr("rms_norm_eps is 2.0"));
  EXPECT_THAT(refused_with("attention_bias", 1).what(), HasSubstr("attention_bias is 1"));
  EXPECT_THAT(refused_with("eos_token_id", {2, "3"}).what(), HasSubstr("eos_token_id"));
  EXPECT_THAT(refused_with("torch_dtype", "float8").what(), HasSubstr("float8"));
  EXPECT_THAT(refused_with("dtype", "float32").what(), HasSubstr("torch_dtype"));
}

TEST(ModelConfig, B29AHugeJunkKeyIsListedAndItsTextForgotten) {
  const ModelConfig config = parse_with("junk", std::string(5'000'000, 'x'));
  EXPECT_THAT(config.unused_keys, ElementsAre("junk"));
  json document = dense();
  document[std::string(5'000'000, 'k')] = 1;
  const ModelConfig long_key = parse(document);
  ASSERT_EQ(long_key.unused_keys.size(), 1u);
  EXPECT_LT(long_key.unused_keys[0].size(), 100u);
  EXPECT_LT(std::string(refused_with("hidden_size", std::string(5'000'000, 'x')).what()).size(), 300u);
}

TEST(ModelConfig, RefusesOtherModelsByName) {
  const Error type = refused_with("model_type", "llama");
  EXPECT_EQ(type.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(type.what(), AllOf(HasSubstr("model_type"), HasSubstr("llama")));
  EXPECT_THAT(refused_with("architectures", {"Qwen3ForSequenceClassification"}).what(), HasSubstr("architectures"));
  EXPECT_THAT(refused_with("hidden_act", "gelu").what(), HasSubstr("gelu"));
  EXPECT_THAT(refused_with("partial_rotary_factor", 0.5).what(), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refused_with("vision_config", {{"depth", 2}}).what(), HasSubstr("vision_config"));
}

TEST(ModelConfig, RefusesOtherQuantisationsByName) {
  const Error error = refused_with("quantization_config", {{"quant_method", "awq"}});
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("quantization_config"), HasSubstr("awq")));
  EXPECT_EQ(refused_with("compression_config", {{"bits", 8}}).code(), ErrorCode::kUnsupported);
}

TEST(ModelConfig, ReadsRopeScaling) {
  const RopeConfig yarn = ModelConfig::load(reference_checkpoint("dense-yarn")).rope;
  EXPECT_EQ(yarn.type, RopeType::kYarn);
  EXPECT_EQ(yarn.factor, 4.0);
  EXPECT_EQ(yarn.original_max_position_embeddings, 32);
  EXPECT_EQ(yarn.beta_fast, 32.0);
  EXPECT_EQ(parse_with("rope_scaling", {{"type", "linear"}, {"factor", 2}}).rope.type, RopeType::kLinear);
  EXPECT_EQ(parse_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}).rope.original_max_position_embeddings,
            256);
  EXPECT_EQ(parse_with("rope_scaling", {{"rope_type", "default"}}).rope.type, RopeType::kDefault);
}

TEST(ModelConfig, ReadsTheNewerRopeParameters) {
  json document = dense();
  document.erase("rope_theta");
  document.erase("rope_scaling");
  document["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e6}};
  EXPECT_EQ(parse(document).rope.theta, 5e6);
  document["rope_theta"] = 1e6;
  EXPECT_THAT(error_of([&] { parse(document); }).what(), HasSubstr("rope_parameters.rope_theta"));
  document["rope_theta"] = 5e6;
  EXPECT_EQ(parse(document).rope.theta, 5e6);
  document["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_THAT(error_of([&] { parse(document); }).what(), HasSubstr("rope_parameters"));
}

TEST(ModelConfig, RefusesOtherRopeScalingByName) {
  for (const char* type : {"dynamic", "llama3", "longrope", "mrope"}) {
    EXPECT_THAT(refused_with("rope_scaling", {{"rope_type", type}, {"factor", 2.0}}).what(), HasSubstr(type));
  }
  EXPECT_THAT(refused_with("rope_scaling", {{"factor", 2.0}}).what(), HasSubstr("rope_scaling.rope_type is absent"));
  EXPECT_THAT(refused_with("rope_scaling", {{"type", "yarn"}}).what(), HasSubstr("rope_scaling.factor is absent"));
  EXPECT_THAT(refused_with("rope_scaling", {{"type", "yarn"}, {"factor", "4"}}).what(), HasSubstr("\"4\""));
  EXPECT_THAT(refused_with("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"surprise", 1}}).what(),
              HasSubstr("rope_scaling.surprise"));
  EXPECT_THAT(refused_with("rope_scaling", {{"type", "default"}, {"mrope_section", {8, 4, 4}}}).what(),
              HasSubstr("mrope_section"));
  EXPECT_THAT(refused_with("rope_scaling", "yarn").what(), HasSubstr("rope_scaling"));
}

TEST(ModelConfig, ReadsMixtureOfExperts) {
  const ModelConfig config = ModelConfig::parse(
      R"({"model_type":"qwen3_moe","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,
          "num_hidden_layers":4,"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":48,
          "decoder_sparse_step":2,"mlp_only_layers":[3],"norm_topk_prob":true})");
  EXPECT_EQ(config.type, ModelType::kQwen3Moe);
  EXPECT_EQ(config.head_dim, 16);  // this class has no default of its own
  EXPECT_EQ(config.intermediate_size, 6144);
  EXPECT_TRUE(config.norm_topk_prob);
  EXPECT_FALSE(config.is_sparse_layer(0));
  EXPECT_TRUE(config.is_sparse_layer(1));
  EXPECT_FALSE(config.is_sparse_layer(3));
  EXPECT_THAT(error_of([] {
                ModelConfig::parse(R"({"model_type":"qwen3_moe","num_experts":4,"num_experts_per_tok":5})");
              }).what(),
              HasSubstr("num_experts_per_tok is 5"));
}

TEST(ModelConfig, RefusesBrokenJson) {
  for (const char* text : {"", "{", "[]", "null", "{\"model_type\":\"qwen3\",}", "{\"model_type\":\"qwen3\"} x",
                           "{\"a\":1e999}", "{\"model_type\":\"qwen3\",\"vocab_size\":1,\"vocab_size\":2}"}) {
    const Error error = error_of([&] { ModelConfig::parse(text); });
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << text;
    EXPECT_THAT(error.what(), HasSubstr("config.json")) << text;
  }
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_THAT(error_of([&] { ModelConfig::parse(deep); }).what(), HasSubstr("nested deeper"));
  EXPECT_EQ(error_of([] { ModelConfig::load("/nonexistent/model"); }).code(), ErrorCode::kNotFound);
}

TEST(GenerationConfig, ReadsTheBundledModels) {
  const auto directory = std::filesystem::path(REPRISE_SOURCE_DIR) / "models" / "mini";
  const GenerationConfig config = GenerationConfig::load(directory);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2045, 2043));
  EXPECT_EQ(config.do_sample, false);
  EXPECT_EQ(config.temperature, 0.0);
  EXPECT_EQ(config.top_k, std::nullopt);
  EXPECT_THAT(end_tokens(ModelConfig::load(directory), config), ElementsAre(2045, 2043));
  EXPECT_THAT(end_tokens(ModelConfig::load(directory), GenerationConfig()), ElementsAre(2045));
}

TEST(GenerationConfig, IsOptionalAndStrict) {
  TemporaryDirectory directory;
  EXPECT_EQ(GenerationConfig::load(directory.path()).temperature, std::nullopt);
  const GenerationConfig config = GenerationConfig::parse(
      R"({"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":null,"eos_token_id":7,"num_beams":4})");
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.min_p, std::nullopt);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(7));
  EXPECT_THAT(config.unused_keys, ElementsAre("num_beams"));
  for (const char* text : {R"({"temperature":-1})", R"({"temperature":"1"})", R"({"top_p":1.5})", R"({"top_k":1.5})",
                           R"({"repetition_penalty":0})", R"({"do_sample":1})", R"({"eos_token_id":-1})", "[]"}) {
    EXPECT_EQ(error_of([&] { GenerationConfig::parse(text); }).code(), ErrorCode::kCorruptData) << text;
  }
}

}  // namespace
}  // namespace reprise::load
