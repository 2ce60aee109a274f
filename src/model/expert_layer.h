#pragma once

#include <cstdint>
#include <string>

#include "load/model_config.h"
#include "model/weight_builder.h"
#include "ops/forward_context.h"
#include "ops/linear.h"

namespace reprise::model {

/// The feed-forward of a layer with experts: a router chooses some for each token, and their SwiGLU networks are summed
/// up by its weights.
class ExpertLayer {
 public:
  /// Takes its weights under `prefix` ("model.layers.0.mlp.").
  ExpertLayer(const load::ModelConfig& config, const std::string& prefix, WeightBuilder& weights);

  /// x [T, hidden size] and the result alike.
  Tensor forward(ops::ForwardContext& context, const Tensor& x) const;

 private:
  int64_t experts_;
  int64_t top_k_;
  int64_t intermediate_;
  bool renormalize_;
  ops::LinearWeights router_;
  ops::LinearWeights gate_up_;  ///< [experts, 2 * intermediate, hidden size]: first the gate's rows, then up's
  ops::LinearWeights down_;     ///< [experts, hidden size, intermediate]
};

}  // namespace reprise::model
