#include "load/model_shapes.h"

#include <fmt/core.h>

#include <array>

namespace reprise::load {
namespace {

struct ShapeEntry {
  std::string_view name;
  int hidden_size;
  int intermediate_size;
  int num_hidden_layers;
  int num_attention_heads;
  int num_key_value_heads;
  bool tie_word_embeddings;
  // With experts only.
  int num_experts = 0;
  int num_experts_per_tok = 0;
  int moe_intermediate_size = 0;
};

/// The dense ones are from the config.json files of Qwen/Qwen3-0.6B, -1.7B, -4B, -8B and -32B. qwen3-moe-small is no
/// published model: as many experts for each token as the published ones, small enough for any machine. All heads have
/// 128 dimensions.
constexpr std::array<ShapeEntry, 6> kShapes = {{{"qwen3-0.6b", 1024, 3072, 28, 16, 8, true},
                                                {"qwen3-1.7b", 2048, 6144, 28, 16, 8, true},
                                                {"qwen3-4b", 2560, 9728, 36, 32, 8, true},
                                                {"qwen3-8b", 4096, 12288, 36, 32, 8, false},
                                                {"qwen3-32b", 5120, 25600, 64, 64, 8, false},
                                                {"qwen3-moe-small", 1024, 3072, 12, 16, 4, true, 64, 8, 384}}};

/// The keys that only models with experts have, each followed by a comma.
std::string expert_keys(const ShapeEntry& shape) {
  if (shape.num_experts == 0) return "";
  return fmt::format(R"(
  "decoder_sparse_step": 1,
  "mlp_only_layers": [],
  "moe_intermediate_size": {},
  "norm_topk_prob": true,
  "num_experts": {},
  "num_experts_per_tok": {},
  "router_aux_loss_coef": 0.001,)",
                     shape.moe_intermediate_size, shape.num_experts, shape.num_experts_per_tok);
}

}  // namespace

std::vector<std::string> known_shapes() {
  std::vector<std::string> names;
  for (const ShapeEntry& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

std::optional<std::string> config_of_shape(std::string_view name) {
  for (const ShapeEntry& shape : kShapes) {
    if (shape.name != name) continue;
    const bool experts = shape.num_experts > 0;
    return fmt::format(R"({{
  "architectures": ["{}"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "eos_token_id": 151645,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": {},
  "initializer_range": 0.02,
  "intermediate_size": {},
  "max_position_embeddings": 40960,
  "max_window_layers": {},
  "model_type": "{}",{}
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "num_key_value_heads": {},
  "rms_norm_eps": 1e-06,
  "rope_scaling": null,
  "rope_theta": 1000000,
  "sliding_window": null,
  "tie_word_embeddings": {},
  "torch_dtype": "bfloat16",
  "use_cache": true,
  "use_sliding_window": false,
  "vocab_size": 151936
}}
)",
                       experts ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM", shape.hidden_size, shape.intermediate_size,
                       shape.num_hidden_layers, experts ? "qwen3_moe" : "qwen3", expert_keys(shape),
                       shape.num_attention_heads, shape.num_hidden_layers, shape.num_key_value_heads,
                       shape.tie_word_embeddings);
  }
  return std::nullopt;
}

std::string generation_config_of_shapes() {
  return R"({
  "bos_token_id": 151643,
  "do_sample": true,
  "eos_token_id": [151645, 151643],
  "pad_token_id": 151643,
  "temperature": 0.6,
  "top_k": 20,
  "top_p": 0.95
}
)";
}

}  // namespace reprise::load
