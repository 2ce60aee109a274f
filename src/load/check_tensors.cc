#include "load/check_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "load/json.h"
#include "load/problems.h"
#include "load/quantized_tensors.h"
#include "load/safetensors_header.h"

namespace reprise::load {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHeadLayer = "lm_head";
constexpr const char* kHead = "lm_head.weight";
/// More than any model has; a config.json of a few bytes must not claim gigabytes of names.
constexpr int64_t kMaxTensors = int64_t{4} << 20;

bool is_harmless(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

bool fits(const Shape& shape, const ExpectedTensor& tensor) {
  return shape == tensor.shape || std::ranges::find(tensor.equivalent_shapes, shape) != tensor.equivalent_shapes.end();
}

std::string allowed_names(const std::vector<DType>& dtypes) {
  std::string text;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    text += i == 0 ? "" : (i + 1 == dtypes.size() ? " or " : ", ");
    text += safetensors_name(dtypes[i]);
  }
  return text;
}

/// Norms of models whose outliers were moved into weights have a bias.
void add_norm(std::vector<ExpectedTensor>& result, const ModelConfig& config, const std::string& name, int64_t size) {
  result.push_back({name + ".weight", Shape{size}});
  if (config.quantization.describes(name + ".bias")) result.push_back({name + ".bias", Shape{size}});
}

void add_attention(std::vector<ExpectedTensor>& result, const std::string& layer, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t query = config.query_size();
  const int64_t key_value = config.key_value_size();
  const std::string attention = layer + "self_attn.";
  const auto add_projection = [&](const char* name, int64_t out, int64_t in) {
    add_linear_tensors(result, config.quantization, attention + name, {out, in}, config.attention_bias);
  };
  add_projection("q_proj", query, hidden);
  add_projection("k_proj", key_value, hidden);
  add_projection("v_proj", key_value, hidden);
  add_projection("o_proj", hidden, query);
  add_norm(result, config, attention + "q_norm", config.head_dim);
  add_norm(result, config, attention + "k_norm", config.head_dim);
}

void add_mlp(std::vector<ExpectedTensor>& result, const ModelConfig& config, const std::string& prefix,
             int64_t intermediate) {
  const int64_t hidden = config.hidden_size;
  add_linear_tensors(result, config.quantization, prefix + "gate_proj", {intermediate, hidden}, false);
  add_linear_tensors(result, config.quantization, prefix + "up_proj", {intermediate, hidden}, false);
  add_linear_tensors(result, config.quantization, prefix + "down_proj", {hidden, intermediate}, false);
}

/// Compared a part at a time, so that both are never in memory.
bool holds_the_same(const StoredTensor& a, const StoredTensor& b) {
  if (a.dtype != b.dtype || a.bytes.size() != b.bytes.size()) return false;
  constexpr size_t kPart = size_t{4} << 20;
  bool same = true;
  for (size_t done = 0; same && done < a.bytes.size(); done += kPart) {
    const size_t count = std::min(kPart, a.bytes.size() - done);
    same = std::memcmp(a.bytes.data() + done, b.bytes.data() + done, count) == 0;
    a.release(a.bytes.subspan(done, count));
    b.release(b.bytes.subspan(done, count));
  }
  return same;
}

}  // namespace

void check_tensors(const std::vector<TensorSpec>& tensors, const std::string& what,
                   const std::vector<ExpectedTensor>& expected) {
  Problems problems;
  std::map<std::string_view, const TensorSpec*> stored_tensors;
  for (const TensorSpec& tensor : tensors) stored_tensors.emplace(tensor.name, &tensor);
  std::set<std::string_view> known;
  for (const ExpectedTensor& tensor : expected) {
    known.insert(tensor.name);
    const auto place = stored_tensors.find(tensor.name);
    if (place == stored_tensors.end()) {
      if (tensor.required) problems.add(fmt::format("{} is missing", printable(tensor.name)));
      continue;
    }
    const TensorSpec& stored = *place->second;
    if (!fits(stored.shape, tensor)) {
      std::string wanted = tensor.shape.to_string();
      for (const Shape& shape : tensor.equivalent_shapes) wanted += " or " + shape.to_string();
      problems.add(
          fmt::format("{} has the shape {}, not {}", printable(tensor.name), stored.shape.to_string(), wanted));
    }
    if (std::ranges::find(tensor.dtypes, stored.dtype) == tensor.dtypes.end()) {
      problems.add(fmt::format("{} is {}, not {}", printable(tensor.name), safetensors_name(stored.dtype),
                               allowed_names(tensor.dtypes)));
    }
  }
  for (const TensorSpec& stored : tensors) {
    if (!known.contains(stored.name) && !is_harmless(stored.name)) {
      problems.add(fmt::format("{} is not part of this model", printable(stored.name)));
    }
  }
  problems.throw_if_any(ErrorCode::kCorruptData, what + " does not fit its config.json");
}

void check_tensors(const Checkpoint& checkpoint, const std::vector<ExpectedTensor>& expected) {
  std::vector<TensorSpec> tensors;
  for (const StoredTensor& stored : checkpoint.tensors()) tensors.push_back({stored.name, stored.dtype, stored.shape});
  check_tensors(tensors, checkpoint.path().string(), expected);
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  const int64_t sparse_tensors = config.num_experts * 3;
  if (config.num_hidden_layers * (16 + sparse_tensors) > kMaxTensors) {
    throw Error(ErrorCode::kUnsupported, "a model of {} layers with {} experts has more than {} tensors",
                config.num_hidden_layers, config.num_experts, kMaxTensors);
  }
  check_quantization(config);
  std::vector<ExpectedTensor> result;
  const int64_t hidden = config.hidden_size;
  result.push_back({kEmbedding, Shape{config.vocab_size, hidden}});
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add_norm(result, config, layer + "input_layernorm", hidden);
    add_attention(result, layer, config);
    add_norm(result, config, layer + "post_attention_layernorm", hidden);
    if (config.is_sparse_layer(i)) {
      result.push_back({layer + "mlp.gate.weight", Shape{config.num_experts, hidden}});
      for (int64_t expert = 0; expert < config.num_experts; ++expert) {
        add_mlp(result, config, fmt::format("{}mlp.experts.{}.", layer, expert), config.moe_intermediate_size);
      }
    } else {
      add_mlp(result, config, layer + "mlp.", config.intermediate_size);
    }
  }
  add_norm(result, config, "model.norm", hidden);
  const Shape head{config.vocab_size, hidden};
  if (quantizes_head(config)) {
    add_linear_tensors(result, config.quantization, kHeadLayer, head, false);
  } else {
    result.push_back({kHead, head, !config.tie_word_embeddings});
  }
  return result;
}

HeadChoice choose_head(const Checkpoint& checkpoint, const ModelConfig& config) {
  const StoredTensor* head = checkpoint.find(kHead);
  if (!config.tie_word_embeddings || quantizes_head(config)) return {&checkpoint.at(kHead), false, false};
  const StoredTensor& embedding = checkpoint.at(kEmbedding);
  if (head == nullptr) return {&embedding, true, false};
  if (holds_the_same(*head, embedding)) return {&embedding, true, false};
  return {head, false, true};
}

}  // namespace reprise::load
