#pragma once

#include <cstdint>
#include <string>

#include "load/model_config.h"
#include "model/expert_places.h"
#include "model/expert_products.h"
#include "model/weight_builder.h"
#include "ops/forward_context.h"
#include "ops/linear.h"

namespace reprise::model {

/// How a layer keeps its experts.
struct ExpertLayerOptions {
  bool count_rows = false;  ///< each step adds the rows of each place up
  /// The expert at each place, which a map on the device tells; empty: every expert has its own number's place, and
  /// there is no map.
  ExpertPlacement placement = {};
  bool dynamic = false;  ///< copies of an expert share its rows
};

/// The feed-forward of a layer with experts: a router chooses some for each token, and their SwiGLU networks are summed
/// up by its weights.
class ExpertLayer {
 public:
  /// Takes its weights under `prefix` ("model.layers.0.mlp.").
  ExpertLayer(const load::ModelConfig& config, const std::string& prefix, WeightBuilder& weights,
              ExpertLayerOptions options);

  /// x [T, hidden size] and the result alike.
  Tensor forward(ops::ForwardContext& context, const Tensor& x) const;
  /// What is told and changed of its places from outside.
  ExpertPlaces::Layer places(int64_t layer) const;
  ExpertProducts products() const { return {gate_up_, down_, top_k_}; }
  const ops::LinearWeights& router() const { return router_; }

 private:
  int64_t experts_;
  int64_t top_k_;
  int64_t intermediate_;
  bool renormalize_;
  bool dynamic_;
  ExpertPlacement placement_;
  ops::LinearWeights router_;
  ops::LinearWeights gate_up_;  ///< [places, 2 * intermediate, hidden size]: first the gate's rows, then up's
  ops::LinearWeights down_;     ///< [places, hidden size, intermediate]
  Tensor map_;                  ///< absent: the places are the experts
  Tensor counts_;               ///< int64 [places]; absent: nothing is counted
};

}  // namespace reprise::model
