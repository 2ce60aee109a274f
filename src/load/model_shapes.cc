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
  bool tie_word_embeddings;
};

/// From the config.json files of Qwen/Qwen3-0.6B, -1.7B, -4B and -8B. All have 8 key/value heads of 128 dimensions.
constexpr std::array<ShapeEntry, 4> kShapes = {{{"qwen3-0.6b", 1024, 3072, 28, 16, true},
                                                {"qwen3-1.7b", 2048, 6144, 28, 16, true},
                                                {"qwen3-4b", 2560, 9728, 36, 32, true},
                                                {"qwen3-8b", 4096, 12288, 36, 32, false}}};

}  // namespace

std::vector<std::string> known_shapes() {
  std::vector<std::string> names;
  for (const ShapeEntry& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

std::optional<std::string> config_of_shape(std::string_view name) {
  for (const ShapeEntry& shape : kShapes) {
    if (shape.name != name) continue;
    return fmt::format(R"({{
  "architectures": ["Qwen3ForCausalLM"],
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
  "model_type": "qwen3",
  "num_attention_heads": {},
  "num_hidden_layers": {},
  "num_key_value_heads": 8,
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
                       shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers, shape.num_attention_heads,
                       shape.num_hidden_layers, shape.tie_word_embeddings);
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
