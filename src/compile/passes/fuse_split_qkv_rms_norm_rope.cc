#include <fmt/core.h>

#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/kv_cache.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/split_qkv.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

/// The product [T, (heads + 2 kv_heads) head_dim] by heads, as the merging of linear layers leaves it; with `store`,
/// keys and values that are needed for the cache only; with `scales`, a cache of int8.
ReplacementRule split_rule(bool bias, bool store, bool scales = false) {
  ReplacementRule rule;
  rule.name =
      fmt::format("split_qkv_rms_norm{}_rope{}{}", bias ? "_bias" : "", store ? "_store" : "", scales ? "_int8" : "");
  rule.tensors = {{"qkv", example_rows(9 * 4)},
                  {"q_weight", example_vector(4)},
                  {"k_weight", example_vector(4)},
                  {"positions", example_positions()},
                  {"table", TensorMeta(DType::kF32, {32, 4})}};
  if (bias) {
    rule.tensors.push_back({"q_bias", example_vector(4)});
    rule.tensors.push_back({"k_bias", example_vector(4)});
  }
  if (store) {
    const TensorMeta cache(scales ? DType::kI8 : DType::kF32, {8, 4, 2, 4});
    rule.tensors.push_back({"slots", example_positions()});
    rule.tensors.push_back({"k_cache", cache});
    rule.tensors.push_back({"v_cache", cache});
  }
  if (scales) {
    const TensorMeta cache_scales(DType::kF32, {8, 4, 2});
    rule.tensors.push_back({"k_scales", cache_scales});
    rule.tensors.push_back({"v_scales", cache_scales});
  }
  const auto kv_scales = [scales](PatternContext& p) {
    return scales ? ops::KvScales{p["k_scales"], p["v_scales"]} : ops::KvScales{};
  };
  rule.scalars = {any_epsilon(), {"q_end", int64_t{5}}, {"k_end", int64_t{7}}};
  rule.pattern = [bias, store, kv_scales](PatternContext& p) {
    ops::ForwardContext& context = p.context();
    context.positions = p["positions"];
    const int64_t q_end = p.integer("q_end");
    const int64_t k_end = p.integer("k_end");
    const int64_t v_end = 2 * k_end - q_end;
    const Tensor heads = ops::reshape(context, p["qkv"], {p["qkv"].shape()[0], v_end, p["table"].shape()[1]});
    const Tensor v = ops::slice(context, heads, 1, k_end, v_end);
    const auto turn = [&](int64_t begin, int64_t end, const char* weight, const char* bias_name) {
      const Tensor part = ops::slice(context, heads, 1, begin, end);
      const double epsilon = p.number("epsilon");
      const Tensor norm = bias ? ops::rms_norm_bias(context, part, p[weight], p[bias_name], epsilon)
                               : ops::rms_norm(context, part, p[weight], epsilon);
      return ops::rope(context, norm, p["table"]);
    };
    const Tensor q = turn(0, q_end, "q_weight", "q_bias");
    const Tensor k = turn(q_end, k_end, "k_weight", "k_bias");
    if (!store) return std::vector{q, k, v};
    context.slots = p["slots"];
    ops::store_kv(context, k, v, p["k_cache"], p["v_cache"], kv_scales(p));
    return std::vector{q};
  };
  rule.replacement = [bias, store, kv_scales](PatternContext& p) {
    p.context().positions = p["positions"];
    ops::QkNorm norm{.q_weight = p["q_weight"], .k_weight = p["k_weight"], .epsilon = p.number("epsilon")};
    if (bias) norm.q_bias = p["q_bias"];
    if (bias) norm.k_bias = p["k_bias"];
    const int64_t heads = p.integer("q_end");
    const int64_t kv_heads = p.integer("k_end") - heads;
    if (store) {
      p.context().slots = p["slots"];
      return std::vector{ops::split_qkv_rms_norm_rope_store(p.context(), p["qkv"], norm, p["table"], heads, kv_heads,
                                                            p["k_cache"], p["v_cache"], kv_scales(p))};
    }
    const ops::Qkv result = ops::split_qkv_rms_norm_rope(p.context(), p["qkv"], norm, p["table"], heads, kv_heads);
    return std::vector{result.q, result.k, result.v};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_split_qkv_rms_norm_rope(const ops::Registry& registry) {
  ReplacementSet set(registry);
  for (const bool bias : {false, true}) set.add(split_rule(bias, true));
  for (const bool bias : {false, true}) set.add(split_rule(bias, true, true));
  for (const bool bias : {false, true}) set.add(split_rule(bias, false));
  return set;
}

}  // namespace reprise::compile
