#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/expert_places.h"
#include "model/expert_products.h"
#include "model/kv_layout.h"
#include "model/load_report.h"
#include "model/weight_products.h"
#include "ops/forward_context.h"
#include "ops/linear.h"
#include "tensor/tensor.h"

namespace reprise::model {

/// What the engine has to know of a model.
struct ModelInfo {
  std::string architecture;  ///< "qwen3", "qwen3_moe"
  int64_t layers = 0;
  int64_t hidden_size = 0;
  int64_t vocabulary = 0;
  int64_t max_positions = 0;
  DType dtype = DType::kBF16;  ///< of activations
};

/// One architecture, built from a config. Its forward pass is written once in plain operator calls and runs eagerly or
/// is traced.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  virtual KvLayout kv_layout() const = 0;
  /// Logits, float32 [B, vocabulary] (of the rows context.logit_rows) or [T, vocabulary] when those are absent. `kv`
  /// holds one tensor per buffer of kv_layout() and is written for the step's tokens.
  virtual Tensor forward(ops::ForwardContext& context, std::span<const Tensor> kv) const = 0;
  /// Every weight with the name it has in graphs.
  virtual std::vector<std::pair<std::string, Tensor>> named_parameters() const = 0;
  /// The weights of its products, those of one input together, which graphs may join; without experts' stacks.
  virtual std::vector<std::vector<ops::LinearWeights>> products() const { return {}; }
  /// The stacks of experts, layer by layer; empty without any.
  virtual std::vector<ExpertProducts> expert_products() const { return {}; }
  /// Bytes of weights that one decode step reads.
  virtual size_t decode_weight_bytes() const = 0;
  /// What every token is multiplied with, and what only those are of which logits are wanted.
  virtual WeightProducts layer_products() const = 0;
  virtual WeightProducts head_products() const = 0;
  /// Where its experts lie, in memory that a model which is otherwise immutable lets be changed; null without experts.
  virtual ExpertPlaces* expert_places() const { return nullptr; }
  /// Of each layer with experts; empty where nothing is counted. The steps must be done. Reads device memory.
  std::vector<ExpertLoad> expert_load() const {
    const ExpertPlaces* places = expert_places();
    return places == nullptr ? std::vector<ExpertLoad>() : places->load();
  }
  virtual LoadReport load_report() const { return {}; }
};

}  // namespace reprise::model
