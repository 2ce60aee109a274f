#include "model/expert_layer.h"

#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/moe.h"
#include "ops/moe_place.h"
#include "ops/views.h"

namespace reprise::model {

ExpertLayer::ExpertLayer(const load::ModelConfig& config, const std::string& prefix, WeightBuilder& weights,
                         ExpertLayerOptions options)
    : experts_(config.num_experts),
      top_k_(config.num_experts_per_tok),
      intermediate_(config.moe_intermediate_size),
      renormalize_(config.norm_topk_prob),
      dynamic_(options.dynamic),
      placement_(std::move(options.placement)) {
  const bool has_map = !placement_.empty();
  if (!has_map) placement_ = trivial_placement(experts_, experts_);
  const auto places = static_cast<int64_t>(placement_.size());
  using Parallel = ops::LinearWeights::Parallel;
  router_ = weights.router(prefix + "gate");
  const WeightBuilder::ExpertNames names{prefix + "experts.", top_k_, placement_, has_map};
  const std::string gate_up[] = {"gate_proj", "up_proj"};
  gate_up_ = weights.experts(names, "gate_up_proj", gate_up, Parallel::kColumn);
  const std::string down[] = {"down_proj"};
  down_ = weights.experts(names, "down_proj", down, Parallel::kRow);
  if (options.count_rows) counts_ = weights.counters(prefix + "experts.rows", {places});
  if (!has_map) return;
  // Room for any placement: all the places beyond one for each expert may go to the same one.
  const int64_t copies = places - experts_ + 1;
  map_ = weights.indices(prefix + "experts.map", placement_map(placement_, experts_, copies), {experts_, 1 + copies});
}

Tensor ExpertLayer::forward(ops::ForwardContext& context, const Tensor& x) const {
  // In float32, since near ties decide which experts a token gets.
  const Tensor logits = ops::linear(context, x, router_, DType::kF32);
  const ops::ExpertChoice choice = ops::moe_gating_top_k(context, logits, top_k_, renormalize_);
  const Tensor places = map_.defined()
                            ? ops::moe_place(context, choice.experts, map_, dynamic_ ? context.positions : Tensor())
                            : choice.experts;
  const ops::ExpertRoutes routes = ops::moe_route(context, places, static_cast<int64_t>(placement_.size()));
  if (counts_.defined()) ops::moe_count_rows(context, routes.offsets, counts_);
  const Tensor rows = ops::gather_rows(context, x, routes.tokens);
  const Tensor gate_up = ops::grouped_linear(context, rows, gate_up_, routes.offsets);
  const Tensor gate = ops::silu(context, ops::slice(context, gate_up, 1, 0, intermediate_));
  const Tensor up = ops::slice(context, gate_up, 1, intermediate_, 2 * intermediate_);
  const Tensor y = ops::grouped_linear(context, ops::mul(context, gate, up), down_, routes.offsets);
  return ops::moe_combine(context, y, choice.weights, routes.places);
}

ExpertPlaces::Layer ExpertLayer::places(int64_t layer) const {
  ExpertPlaces::Layer result{layer, experts_, {gate_up_.weight, down_.weight}, map_, counts_, placement_};
  for (const Tensor& scale : {gate_up_.scale, down_.scale}) {
    if (scale.defined()) result.stacks.push_back(scale);
  }
  return result;
}

}  // namespace reprise::model
