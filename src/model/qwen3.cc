#include "model/qwen3.h"

#include <cmath>

#include "base/error.h"
#include "load/rope_table.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/kv_cache.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/views.h"

namespace reprise::model {
namespace {

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

}  // namespace

Qwen3Model::Qwen3Model(const load::ModelConfig& config, DType dtype, WeightBuilder& weights, ExpertOptions experts,
                       bool int8_kv)
    : heads_(config.num_attention_heads),
      kv_heads_(config.num_key_value_heads),
      head_dim_(config.head_dim),
      epsilon_(config.rms_norm_eps),
      int8_kv_(int8_kv) {
  info_ = {config.type == load::ModelType::kQwen3Moe ? "qwen3_moe" : "qwen3",
           config.num_hidden_layers,
           config.hidden_size,
           config.vocab_size,
           config.max_position_embeddings,
           dtype};
  using Parallel = ops::LinearWeights::Parallel;
  const bool bias = config.attention_bias;
  embedding_ = weights.table("model.embed_tokens.weight");
  rope_table_ = weights.constant("rope_table", load::rope_table(config, config.max_position_embeddings).values,
                                 {config.max_position_embeddings, config.head_dim});
  layers_.reserve(static_cast<size_t>(config.num_hidden_layers));
  experts.placements.resize(static_cast<size_t>(config.num_hidden_layers));
  if (config.num_experts > 0) places_ = std::make_unique<ExpertPlaces>(weights.device());
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string prefix = layer_prefix(i);
    Layer layer;
    layer.input_norm = make_norm(weights, prefix + "input_layernorm");
    const std::string projections[] = {prefix + "self_attn.q_proj", prefix + "self_attn.k_proj",
                                       prefix + "self_attn.v_proj"};
    const std::vector<ops::LinearWeights> qkv = weights.linears(projections, bias, Parallel::kColumn);
    layer.query = qkv[0];
    layer.key = qkv[1];
    layer.value = qkv[2];
    layer.query_norm = make_norm(weights, prefix + "self_attn.q_norm");
    layer.key_norm = make_norm(weights, prefix + "self_attn.k_norm");
    layer.output = weights.linear(prefix + "self_attn.o_proj", bias, Parallel::kRow);
    layer.post_attention_norm = make_norm(weights, prefix + "post_attention_layernorm");
    if (config.is_sparse_layer(i)) {
      layer.experts.emplace(
          config, prefix + "mlp.", weights,
          ExpertLayerOptions{experts.count_rows, experts.placements[static_cast<size_t>(i)], experts.dynamic});
      places_->add(layer.experts->places(i));
    } else {
      take_feed_forward(layer, prefix + "mlp.", weights);
    }
    layers_.push_back(std::move(layer));
  }
  final_norm_ = make_norm(weights, "model.norm");
  layer_products_ = weights.products();
  head_ = weights.head();
  head_products_ = {weights.products().floating - layer_products_.floating,
                    weights.products().int8 - layer_products_.int8};
  load_report_ = weights.finish();
  names_ = weights.take_names();
  decode_weight_bytes_ = weights.linear_bytes();
}

void Qwen3Model::take_feed_forward(Layer& layer, const std::string& prefix, WeightBuilder& weights) {
  using Parallel = ops::LinearWeights::Parallel;
  const std::string names[] = {prefix + "gate_proj", prefix + "up_proj"};
  const std::vector<ops::LinearWeights> gate_up = weights.linears(names, false, Parallel::kColumn);
  layer.gate = gate_up[0];
  layer.up = gate_up[1];
  layer.down = weights.linear(prefix + "down_proj", false, Parallel::kRow);
}

Qwen3Model::Norm Qwen3Model::make_norm(WeightBuilder& weights, const std::string& prefix) {
  const auto [weight, bias] = weights.norm(prefix);
  return {weight, bias};
}

Tensor Qwen3Model::norm(ops::ForwardContext& context, const Tensor& x, const Norm& weights) const {
  if (weights.bias.defined()) return ops::rms_norm_bias(context, x, weights.weight, weights.bias, epsilon_);
  return ops::rms_norm(context, x, weights.weight, epsilon_);
}

KvLayout Qwen3Model::kv_layout() const {
  KvLayout layout;
  for (int64_t i = 0; i < info_.layers; ++i) {
    const auto add = [&](const char* name, DType dtype, const Shape& entry) {
      layout.buffers.push_back({fmt::format("layers.{}.{}", i, name), KvBuffer::Granularity::kToken, dtype, entry});
    };
    for (const char* name : {"k", "v"}) add(name, int8_kv_ ? DType::kI8 : info_.dtype, {kv_heads_, head_dim_});
    if (!int8_kv_) continue;
    for (const char* name : {"k_scales", "v_scales"}) add(name, DType::kF32, {kv_heads_});
  }
  return layout;
}

std::vector<std::vector<ops::LinearWeights>> Qwen3Model::products() const {
  std::vector<std::vector<ops::LinearWeights>> products;
  for (const Layer& layer : layers_) {
    products.push_back({layer.query, layer.key, layer.value});
    products.push_back({layer.output});
    if (layer.experts) {
      products.push_back({layer.experts->router()});
      continue;
    }
    products.push_back({layer.gate, layer.up});
    products.push_back({layer.down});
  }
  products.push_back({head_});
  return products;
}

std::vector<ExpertProducts> Qwen3Model::expert_products() const {
  std::vector<ExpertProducts> products;
  for (const Layer& layer : layers_) {
    if (layer.experts) products.push_back(layer.experts->products());
  }
  return products;
}

Tensor Qwen3Model::forward(ops::ForwardContext& context, std::span<const Tensor> kv) const {
  const size_t buffers = int8_kv_ ? 4 : 2;
  REPRISE_CHECK(kv.size() == buffers * layers_.size());
  Tensor hidden = ops::embedding(context, context.token_ids, embedding_, info_.dtype);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const Tensor normed = norm(context, hidden, layer.input_norm);
    hidden = ops::add(context, hidden, attention(context, layer, normed, kv.subspan(buffers * i, buffers)));
    const Tensor normed_again = norm(context, hidden, layer.post_attention_norm);
    hidden = ops::add(context, hidden, feed_forward(context, layer, normed_again));
  }
  if (context.logit_rows.defined()) hidden = ops::gather_rows(context, hidden, context.logit_rows);
  return ops::linear(context, norm(context, hidden, final_norm_), head_, DType::kF32);
}

Tensor Qwen3Model::attention(ops::ForwardContext& context, const Layer& layer, const Tensor& x,
                             std::span<const Tensor> kv) const {
  const Dim tokens = x.shape()[0];
  Tensor q = ops::reshape(context, ops::linear(context, x, layer.query), {tokens, heads_, head_dim_});
  Tensor k = ops::reshape(context, ops::linear(context, x, layer.key), {tokens, kv_heads_, head_dim_});
  const Tensor v = ops::reshape(context, ops::linear(context, x, layer.value), {tokens, kv_heads_, head_dim_});
  q = norm(context, q, layer.query_norm);
  k = norm(context, k, layer.key_norm);
  q = ops::rope(context, q, rope_table_);
  k = ops::rope(context, k, rope_table_);
  const ops::KvScales scales = int8_kv_ ? ops::KvScales{kv[2], kv[3]} : ops::KvScales{};
  ops::store_kv(context, k, v, kv[0], kv[1], scales);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
  const Tensor mixed = ops::paged_attention(context, q, kv[0], kv[1], scale, scales);
  return ops::linear(context, ops::reshape(context, mixed, {tokens, heads_ * head_dim_}), layer.output);
}

Tensor Qwen3Model::feed_forward(ops::ForwardContext& context, const Layer& layer, const Tensor& x) const {
  if (layer.experts) return layer.experts->forward(context, x);
  const Tensor gate = ops::silu(context, ops::linear(context, x, layer.gate));
  return ops::linear(context, ops::mul(context, gate, ops::linear(context, x, layer.up)), layer.down);
}

}  // namespace reprise::model
