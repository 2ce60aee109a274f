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
  /// Takes its weights under `prefix` ("model.layers.0.mlp."). `counts`: each step adds the rows of its experts up.
  ExpertLayer(const load::ModelConfig& config, const std::string& prefix, WeightBuilder& weights, bool counts);

  /// x [T, hidden size] and the result alike.
  Tensor forward(ops::ForwardContext& context, const Tensor& x) const;
  /// int64 [experts]; absent where nothing is counted.
  const Tensor& counts() const { return counts_; }

 private:
  int64_t experts_;
  int64_t top_k_;
  int64_t intermediate_;
  bool renormalize_;
  ops::LinearWeights router_;
  ops::LinearWeights gate_up_;  ///< [experts, 2 * intermediate, hidden size]: first the gate's rows, then up's
  ops::LinearWeights down_;     ///< [experts, hidden size, intermediate]
  Tensor counts_;
};

}  // namespace reprise::model
