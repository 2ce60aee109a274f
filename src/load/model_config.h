#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/quantization.h"
#include "tensor/dtype.h"

namespace reprise::load {

/// A config.json has a few kilobytes; some carry a vocabulary of labels.
inline constexpr size_t kMaxConfigBytes = size_t{64} << 20;

enum class ModelType { kQwen3, kQwen3Moe };

enum class RopeType { kDefault, kLinear, kYarn };

/// Rotary position embedding, from rope_theta and rope_scaling (or the newer rope_parameters). Fields beyond `theta`
/// mean what they mean in Hugging Face's modeling_rope_utils.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                           ///< linear, yarn
  int64_t original_max_position_embeddings = 0;  ///< yarn; set to max_position_embeddings where the file has none
  std::optional<double> attention_factor;        ///< yarn; derived from the factor when absent
  double beta_fast = 32.0;                       ///< yarn
  double beta_slow = 1.0;                        ///< yarn
  std::optional<double> mscale;                  ///< yarn
  std::optional<double> mscale_all_dim;          ///< yarn
  bool truncate = true;                          ///< yarn: round the ramp's ends to whole dimensions
};

/// What a config.json says about a Qwen3 model. Defaults are those of Hugging Face's Qwen3Config (Qwen3MoeConfig's
/// where the type is qwen3_moe). Policy for the keys of a file:
/// - every key that Reprise acts on is strictly typed and checked for range; null means what it means there: nothing
/// for
///   optional keys, num_attention_heads for num_key_value_heads, an error for the rest;
/// - a key that Hugging Face acts on and Reprise does not is refused by name (kUnsupported), unless its value changes
///   nothing: a sliding window that no layer uses, attention_dropout, initializer_range ...;
/// - a key that Hugging Face's class has no use for is listed in `unused_keys`, which the caller logs once.
struct ModelConfig {
  ModelType type = ModelType::kQwen3;
  int64_t vocab_size = 151936;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 22016;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;
  /// qwen3: 128 when absent, never hidden_size / num_attention_heads; qwen3_moe: that quotient when absent.
  int64_t head_dim = 128;
  int64_t max_position_embeddings = 32768;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  RopeConfig rope;
  /// The dtype that the file names (dtype or torch_dtype): float32, bfloat16 or float16.
  std::optional<DType> dtype;
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> pad_token_id;

  // qwen3_moe only.
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t decoder_sparse_step = 1;
  bool norm_topk_prob = false;
  std::vector<int32_t> mlp_only_layers;

  /// From quantization_config, or from the quant_model_description.json beside the file.
  Quantization quantization;

  std::vector<std::string> unused_keys;
  /// The same of the quant_model_description.json.
  std::vector<std::string> unused_description_keys;

  /// Reads the text of a config.json; `what` names it in messages. Throws kCorruptData (a wrong type or value, naming
  /// key and value) or kUnsupported (another model type, another quantisation than those of load/quantization.h, a key
  /// that would change results).
  static ModelConfig parse(std::string_view json, const std::string& what = "config.json");
  /// Reads a config.json, or that of a directory with the quant_model_description.json (or _*.json) beside it; also
  /// kNotFound and kIo. Both kinds of quantisation at once are refused (kCorruptData).
  static ModelConfig load(const std::filesystem::path& path);

  int64_t query_size() const { return num_attention_heads * head_dim; }
  int64_t key_value_size() const { return num_key_value_heads * head_dim; }
  /// Whether a layer has experts: qwen3_moe, every decoder_sparse_step-th layer that mlp_only_layers does not name.
  bool is_sparse_layer(int64_t layer) const;
};

/// Where the files of a model lie, given its directory or its single weights file. kInvalidArgument for another file.
std::filesystem::path model_directory(const std::filesystem::path& model);

}  // namespace reprise::load
