#include "load/model_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/config_reader.h"
#include "load/find_file.h"
#include "load/json.h"
#include "load/rope_config.h"

namespace reprise::load {
namespace {

/// Bounds that keep every product of sizes inside 63 bits.
constexpr int64_t kMaxLayers = 65536;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 65536;

/// Keys that neither Hugging Face's forward pass nor Reprise needs.
constexpr std::array kHarmlessKeys = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_dropout",
    "attn_implementation",
    "chunk_size_feed_forward",
    "id2label",
    "initializer_range",
    "is_decoder",
    "label2id",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "tokenizer_class",
    "transformers_version",
    "use_cache",
    "task_specific_params",
    "torchscript",
};

void read_model_type(ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("model_type")) reader.fail("model_type", "\"qwen3\" or \"qwen3_moe\"");
  const std::string type = reader.text("model_type", "");
  if (type != "qwen3" && type != "qwen3_moe") reader.refuse("model_type", "known are qwen3 and qwen3_moe");
  config.type = type == "qwen3" ? ModelType::kQwen3 : ModelType::kQwen3Moe;

  const std::vector<std::string> architectures = reader.texts("architectures");
  const char* wanted = config.type == ModelType::kQwen3 ? "Qwen3ForCausalLM" : "Qwen3MoeForCausalLM";
  if (!architectures.empty() && std::ranges::find(architectures, wanted) == architectures.end()) {
    reader.refuse("architectures", fmt::format("{} is wanted", wanted));
  }
}

/// The two configuration classes of Hugging Face differ in these defaults.
void set_defaults(ModelConfig& config) {
  if (config.type != ModelType::kQwen3Moe) return;
  config.hidden_size = 2048;
  config.intermediate_size = 6144;
  config.num_hidden_layers = 24;
  config.num_key_value_heads = 4;
  config.num_experts = 128;
  config.num_experts_per_tok = 8;
  config.moe_intermediate_size = 768;
}

void read_heads(ConfigReader& reader, ModelConfig& config) {
  config.num_attention_heads = reader.integer("num_attention_heads", config.num_attention_heads, 1, kMaxHeads);
  const bool null_heads = reader.get("num_key_value_heads") != nullptr && !reader.has("num_key_value_heads");
  config.num_key_value_heads = reader.optional_integer("num_key_value_heads", 1, kMaxHeads)
                                   .value_or(null_heads ? config.num_attention_heads : config.num_key_value_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads", fmt::format("a divisor of num_attention_heads {} (it is taken as {})",
                                                   config.num_attention_heads, config.num_key_value_heads));
  }
  if (config.type == ModelType::kQwen3Moe && !reader.has("head_dim")) {
    reader.get("head_dim");
    config.head_dim = config.hidden_size / config.num_attention_heads;
    if (config.head_dim < 2 || config.head_dim % 2 != 0) reader.fail("head_dim", "an even positive integer");
  } else {
    config.head_dim = reader.integer("head_dim", config.head_dim, 2, kMaxHeadDim);
    if (config.head_dim % 2 != 0) reader.fail("head_dim", "even, as rotary embedding turns pairs of dimensions");
  }
}

void read_sizes(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", config.vocab_size, 1);
  config.hidden_size = reader.integer("hidden_size", config.hidden_size, 1);
  config.intermediate_size = reader.integer("intermediate_size", config.intermediate_size, 1);
  config.num_hidden_layers = reader.integer("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  read_heads(reader, config);
  config.max_position_embeddings = reader.integer("max_position_embeddings", config.max_position_embeddings, 1);
  config.rms_norm_eps = reader.number("rms_norm_eps", config.rms_norm_eps, 0.0, 1.0);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", config.tie_word_embeddings);
  config.attention_bias = reader.boolean("attention_bias", config.attention_bias);
  const std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") reader.refuse("hidden_act", "silu is wanted");
}

void read_experts(ConfigReader& reader, ModelConfig& config) {
  if (config.type != ModelType::kQwen3Moe) return;
  // A newer name of the same number.
  const bool renamed = reader.has("num_local_experts");
  config.num_experts = reader.integer("num_experts", config.num_experts, 0, kMaxHeads);
  const int64_t local = reader.integer("num_local_experts", config.num_experts, 0, kMaxHeads);
  if (renamed && reader.has("num_experts") && local != config.num_experts) {
    reader.fail("num_local_experts", fmt::format("num_experts {}, which it is another name of", config.num_experts));
  }
  config.num_experts = local;
  config.num_experts_per_tok = reader.integer("num_experts_per_tok", config.num_experts_per_tok, 1, kMaxHeads);
  if (config.num_experts > 0 && config.num_experts_per_tok > config.num_experts) {
    reader.fail("num_experts_per_tok", fmt::format("at most the number of experts, {}", config.num_experts));
  }
  config.moe_intermediate_size = reader.integer("moe_intermediate_size", config.moe_intermediate_size, 1);
  config.decoder_sparse_step = reader.integer("decoder_sparse_step", config.decoder_sparse_step, 1);
  config.norm_topk_prob = reader.boolean("norm_topk_prob", config.norm_topk_prob);
  config.mlp_only_layers = reader.integers("mlp_only_layers", 0, kMaxLayers);
}

/// Refuses what makes a layer attend to a window of positions; a window that no layer uses is harmless.
void check_windows(ConfigReader& reader, const ModelConfig& config) {
  const bool used = reader.boolean("use_sliding_window", false);
  // An absent window is one of 4096 positions; null is none.
  const bool null_window = reader.get("sliding_window") != nullptr && !reader.has("sliding_window");
  const int64_t window = reader.optional_integer("sliding_window", 0).value_or(null_window ? 0 : 4096);
  const int64_t first_windowed = reader.optional_integer("max_window_layers", 0).value_or(28);
  const std::vector<std::string> layer_types = reader.texts("layer_types");
  if (!layer_types.empty() && static_cast<int64_t>(layer_types.size()) != config.num_hidden_layers) {
    reader.fail("layer_types",
                fmt::format("a list of {} layers (it has {})", config.num_hidden_layers, layer_types.size()));
  }
  for (const std::string& type : layer_types) {
    if (type == "full_attention") continue;
    reader.refuse("layer_types", fmt::format("it names {}; known is full_attention", printable(type)));
  }
  if (!used || null_window || !layer_types.empty()) return;
  if (window >= config.max_position_embeddings) return;
  // Only the dense class keeps its first layers free of windows.
  if (config.type == ModelType::kQwen3 && first_windowed >= config.num_hidden_layers) return;
  reader.refuse("use_sliding_window", fmt::format("layers would attend to windows of {} positions", window));
}

void read_dtype(ConfigReader& reader, ModelConfig& config) {
  const std::optional<std::string> older = reader.optional_text("torch_dtype");
  const std::optional<std::string> newer = reader.optional_text("dtype");
  if (older && newer && *older != *newer) reader.fail("dtype", fmt::format("torch_dtype {}", printable(*older)));
  const std::optional<std::string>& name = newer ? newer : older;
  if (!name) return;
  config.dtype = dtype_from_name(*name);
  if (config.dtype != DType::kF32 && config.dtype != DType::kBF16 && config.dtype != DType::kF16) {
    reader.refuse(newer ? "dtype" : "torch_dtype", "known are float32, bfloat16 and float16");
  }
}

void read_tokens(ConfigReader& reader, ModelConfig& config) {
  const auto token = [&](std::string_view key) -> std::optional<int32_t> {
    const std::optional<int64_t> id = reader.optional_integer(key, 0);
    return id ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
  };
  config.bos_token_id = token("bos_token_id");
  config.eos_token_ids = reader.integers("eos_token_id", 0);
  config.pad_token_id = token("pad_token_id");
}

/// Refuses the keys by which Hugging Face would build another network.
void check_refused(ConfigReader& reader) {
  for (const char* key : {"compression_config", "quantization"}) {
    if (reader.has(key)) reader.refuse(key, "quantised weights are described by quantization_config");
    reader.get(key);
  }
  if (reader.number("partial_rotary_factor", 1.0, 0.0) != 1.0) {
    reader.refuse("partial_rotary_factor", "every dimension of a head is rotated");
  }
  for (const char* key : {"text_config", "vision_config"}) {
    if (reader.has(key)) reader.refuse(key, "only models of text alone are");
    reader.get(key);
  }
  for (const char* key : {"is_encoder_decoder", "add_cross_attention"}) {
    if (reader.optional_boolean(key).value_or(false)) reader.refuse(key, "only decoders without an encoder are");
  }
  const nlohmann::json* pruned = reader.get("pruned_heads");
  if (pruned != nullptr && !pruned->empty()) reader.refuse("pruned_heads", "all heads are kept");
}

}  // namespace

ModelConfig ModelConfig::parse(std::string_view json, const std::string& what) {
  const nlohmann::json document = parse_json(json, what);
  ConfigReader reader(document, what);
  ModelConfig config;
  read_model_type(reader, config);
  check_refused(reader);
  set_defaults(config);
  read_sizes(reader, config);
  read_experts(reader, config);
  check_windows(reader, config);
  config.rope = read_rope_config(reader, config.max_position_embeddings, what, config.unused_keys);
  if (reader.has("quantization_config")) {
    config.quantization =
        Quantization::from_compressed_tensors(*reader.get("quantization_config"), what, config.unused_keys);
  }
  reader.get("quantization_config");
  read_dtype(reader, config);
  read_tokens(reader, config);
  // No effect on results, but a wrong type is a damaged file.
  reader.number("attention_dropout", 0.0, 0.0, 1.0);
  reader.number("initializer_range", 0.02, 0.0);
  reader.boolean("use_cache", true);
  for (const char* key : kHarmlessKeys) reader.get(key);
  const std::vector<std::string> unused = reader.unused();
  config.unused_keys.insert(config.unused_keys.end(), unused.begin(), unused.end());
  return config;
}

ModelConfig ModelConfig::load(const std::filesystem::path& path) {
  const bool directory = std::filesystem::is_directory(path);
  const std::filesystem::path file = directory ? path / "config.json" : path;
  ModelConfig config = parse(read_file(file, kMaxConfigBytes), file.string());
  if (!directory) return config;
  // Older versions add the scheme to the name.
  std::filesystem::path description = path / "quant_model_description.json";
  if (!std::filesystem::exists(description)) {
    const auto found = find_file(path, "quant_model_description_", ".json");
    if (!found) return config;
    description = *found;
  }
  if (config.quantization.quantizes_anything()) {
    throw Error(ErrorCode::kCorruptData, "{} describes quantised weights, and so does {}", description.string(),
                config.quantization.source());
  }
  config.quantization = Quantization::from_description(read_file(description, kMaxConfigBytes), description.string(),
                                                       config.unused_description_keys);
  return config;
}

bool ModelConfig::is_sparse_layer(int64_t layer) const {
  return type == ModelType::kQwen3Moe && num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::ranges::find(mlp_only_layers, static_cast<int32_t>(layer)) == mlp_only_layers.end();
}

std::filesystem::path model_directory(const std::filesystem::path& model) {
  if (std::filesystem::is_directory(model)) return model;
  if (std::filesystem::exists(model) && model.extension() != ".safetensors") {
    throw Error(ErrorCode::kInvalidArgument, "{} is neither a model's directory nor a .safetensors file",
                model.string());
  }
  return model.has_parent_path() ? model.parent_path() : ".";
}

}  // namespace reprise::load
