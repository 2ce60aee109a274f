#include "compile/standard_passes.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "compile/passes/eliminate_dead_code.h"
#include "compile/passes/event_closure.h"
#include "compile/passes/fusions.h"
#include "compile/passes/in_place.h"
#include "compile/passes/lower_core_limits.h"
#include "compile/passes/merge_linears.h"
#include "compile/passes/remove_cat_ops.h"
#include "compile/passes/remove_noop_ops.h"
#include "compile/passes/share_quantizations.h"

namespace reprise::compile {
namespace {

/// Collects passes, each under the switch that governs it.
class Pipeline {
 public:
  explicit Pipeline(const PassOptions& options) : options_(options) {}

  void add(bool enabled, Pass pass) {
    known_.push_back(pass.name);
    const auto& disabled = options_.disabled_passes;
    if (enabled && std::find(disabled.begin(), disabled.end(), pass.name) == disabled.end()) {
      passes_.push_back(std::move(pass));
    }
  }

  void add(bool enabled, std::string name, ReplacementSet replacements) {
    const RewriteOptions rewrite{.device = options_.device, .allow_inexact = options_.inexact_fusions};
    add(enabled, {std::move(name), [replacements = std::move(replacements), rewrite](graph::Graph& graph) {
                    return replacements.run(graph, rewrite);
                  }});
  }

  std::vector<Pass> finish() {
    for (const std::string& name : options_.disabled_passes) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      std::string list;
      for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
      const std::string nearest = nearest_name(name, known_);
      throw Error(ErrorCode::kInvalidArgument, "there is no pass '{}' to disable", name)
          .remedy(nearest.empty() ? "there are " + list : fmt::format("did you mean '{}'?", nearest));
    }
    return std::move(passes_);
  }

 private:
  const PassOptions& options_;
  std::vector<Pass> passes_;
  std::vector<std::string> known_;
};

/// Merged products first, of inputs that are quantised once, because others match what they leave; quantised forms
/// behind the plain ones that they grow from.
void add_fusions(Pipeline& pipeline, const ops::Registry& registry, const PassOptions& options) {
  const bool enabled = options.pattern_fusion_pass;
  pipeline.add(enabled, {"share_quantizations", share_quantizations});
  pipeline.add(enabled, {"merge_linears", [&registry, device = options.device](graph::Graph& graph) {
                           return merge_linears(graph, registry, device);
                         }});
  pipeline.add(enabled, "gather_early", gather_early(registry));
  pipeline.add(enabled, "embedding_rms_norm", fuse_embedding_rms_norm(registry));
  pipeline.add(enabled, "embedding_rms_norm_quantize", fuse_embedding_rms_norm_quantize(registry));
  pipeline.add(enabled, "add_rms_norm", fuse_add_rms_norm(registry));
  pipeline.add(enabled, "add_rms_norm_dynamic_quantize", fuse_add_rms_norm_dynamic_quantize(registry));
  pipeline.add(enabled, "add_rms_norm_cast", fuse_add_rms_norm_cast(registry));
  pipeline.add(enabled, "transpose_batch_matmul", fuse_transpose_batch_matmul(registry));
  pipeline.add(enabled, "add_rms_norm_quantize", fuse_add_rms_norm_quantize(registry));
  pipeline.add(enabled, "fold_reciprocal", fold_reciprocal(registry));
  pipeline.add(enabled, "split_qkv_rms_norm_rope", fuse_split_qkv_rms_norm_rope(registry));
  pipeline.add(enabled, "moe_experts", fuse_moe_experts(registry));
  pipeline.add(enabled, "swiglu", fuse_swiglu(registry));
  pipeline.add(enabled, "swiglu_quantize", fuse_swiglu_quantize(registry));
}

Pass event_closure_pass(const ops::Registry& registry) {
  return {"event_closure", [&registry](graph::Graph& graph) { return event_closure(graph, registry); }};
}

Pass lower_core_limits_pass(const ops::Registry& registry) {
  return {"lower_core_limits", [&registry](graph::Graph& graph) { return lower_core_limits(graph, registry); }};
}

}  // namespace

std::vector<Pass> lowering_passes(const ops::Registry& registry) {
  return {event_closure_pass(registry), lower_core_limits_pass(registry)};
}

std::vector<Pass> standard_passes(const ops::Registry& registry, const PassOptions& options) {
  Pipeline pipeline(options);
  using Function = PassResult (*)(graph::Graph&, const ops::Registry&, const std::string&);
  const auto bind = [&](Function function, const char* name) {
    return Pass{name, [&registry, function, device = options.device](graph::Graph& graph) {
                  return function(graph, registry, device);
                }};
  };
  // npugraph_ex's order. What runs in place is protected by the events, so these are complete before it.
  for (const Pass& pass : options.pre_passes) pipeline.add(true, pass);
  pipeline.add(options.remove_noop_ops, {"remove_noop_ops", remove_noop_ops});
  pipeline.add(options.input_inplace_pass, bind(recover_view_in_place, "recover_view_in_place"));
  for (size_t i = 0; i < options.replacements.size(); ++i) {
    const std::string name = i == 0 ? "user_replacements" : fmt::format("user_replacements_{}", i);
    pipeline.add(options.pattern_fusion_pass, name, options.replacements[i]);
  }
  add_fusions(pipeline, registry, options);
  for (const Pass& pass : options.post_passes) pipeline.add(true, pass);
  pipeline.add(options.remove_cat_ops, {"remove_cat_ops", remove_cat_ops});
  pipeline.add(true, event_closure_pass(registry));
  // What the passes before made useless goes before memory is looked at.
  pipeline.add(true, {"eliminate_dead_code", eliminate_dead_code});
  pipeline.add(options.inplace_pass, bind(in_place, "in_place"));
  pipeline.add(options.input_inplace_pass, bind(input_in_place, "input_in_place"));
  pipeline.add(true, lower_core_limits_pass(registry));
  return pipeline.finish();
}

}  // namespace reprise::compile
