#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/expert_layer.h"
#include "model/model.h"
#include "model/weight_builder.h"
#include "ops/linear.h"

namespace reprise::model {

/// How a model keeps its experts.
struct ExpertOptions {
  bool count_rows = false;
  /// Of each layer, empty for those without experts; all empty: no maps.
  std::vector<ExpertPlacement> placements = {};
  bool dynamic = false;
};

/// Qwen3: pre-norm decoder layers with grouped-query attention, a norm over each query and key head, rotary positions,
/// and a SwiGLU feed-forward; with the type qwen3_moe, a mixture of experts in the layers that the config says.
class Qwen3Model final : public Model {
 public:
  /// Takes its weights from `weights`, in the order of the forward pass. `int8_kv`: keys and values are kept as int8,
  /// with a scale for each token and KV head. The builder's device must outlive the model.
  Qwen3Model(const load::ModelConfig& config, DType dtype, WeightBuilder& weights, ExpertOptions experts = {},
             bool int8_kv = false);

  const ModelInfo& info() const override { return info_; }
  KvLayout kv_layout() const override;
  Tensor forward(ops::ForwardContext& context, std::span<const Tensor> kv) const override;
  std::vector<std::pair<std::string, Tensor>> named_parameters() const override { return names_; }
  std::vector<std::vector<ops::LinearWeights>> products() const override;
  std::vector<ExpertProducts> expert_products() const override;
  size_t decode_weight_bytes() const override { return decode_weight_bytes_; }
  WeightProducts layer_products() const override { return layer_products_; }
  WeightProducts head_products() const override { return head_products_; }
  ExpertPlaces* expert_places() const override { return places_.get(); }
  LoadReport load_report() const override { return load_report_; }

 private:
  /// The bias is absent but in models whose outliers were moved into weights.
  struct Norm {
    Tensor weight, bias;
  };
  struct Layer {
    Norm input_norm;
    ops::LinearWeights query, key, value, output;
    Norm query_norm, key_norm;
    Norm post_attention_norm;
    ops::LinearWeights gate, up, down;  ///< of layers without experts
    std::optional<ExpertLayer> experts;
  };

  static void take_feed_forward(Layer& layer, const std::string& prefix, WeightBuilder& weights);
  static Norm make_norm(WeightBuilder& weights, const std::string& prefix);
  Tensor norm(ops::ForwardContext& context, const Tensor& x, const Norm& weights) const;

  /// `kv`: the layer's buffers, see kv_layout().
  Tensor attention(ops::ForwardContext& context, const Layer& layer, const Tensor& x, std::span<const Tensor> kv) const;
  Tensor feed_forward(ops::ForwardContext& context, const Layer& layer, const Tensor& x) const;

  ModelInfo info_;
  int64_t heads_;
  int64_t kv_heads_;
  int64_t head_dim_;
  double epsilon_;
  bool int8_kv_;
  Tensor embedding_;
  Tensor rope_table_;
  std::vector<Layer> layers_;
  std::unique_ptr<ExpertPlaces> places_;  ///< null without experts
  Norm final_norm_;
  ops::LinearWeights head_;
  std::vector<std::pair<std::string, Tensor>> names_;
  size_t decode_weight_bytes_ = 0;
  WeightProducts layer_products_, head_products_;
  LoadReport load_report_;
};

}  // namespace reprise::model
