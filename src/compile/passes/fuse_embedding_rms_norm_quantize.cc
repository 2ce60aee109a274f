#include <fmt/core.h>

#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/norm.h"
#include "ops/quantize.h"

namespace reprise::compile {
namespace {

/// What the rules share; the pattern's norm is embedding_rms_norm, which the pass before has made, or with a bias the
/// plain operators, for which there is none.
ReplacementRule embedding_rule(const char* name, bool bias) {
  ReplacementRule rule;
  rule.name = name;
  rule.tensors = {
      {"ids", example_positions()}, {"table", TensorMeta(DType::kF32, {32, 8})}, {"weight", example_vector()}};
  if (bias) rule.tensors.push_back({"bias", example_vector()});
  rule.scalars = {any_epsilon(), {"dtype", DType::kF32}};
  return rule;
}

Tensor argument_or_none(const PatternContext& p, const char* name, bool there) { return there ? p[name] : Tensor(); }

ops::NormAndSum norm_of_embedding(PatternContext& p, bool bias) {
  const DType dtype = p.dtype("dtype");
  const double epsilon = p.number("epsilon");
  if (!bias) return ops::embedding_rms_norm(p.context(), p["ids"], p["table"], p["weight"], dtype, epsilon);
  const Tensor hidden = ops::embedding(p.context(), p["ids"], p["table"], dtype);
  return {ops::rms_norm_bias(p.context(), hidden, p["weight"], p["bias"], epsilon), hidden};
}

ReplacementRule embedding_static_rule(const char* name, bool bias, bool with_offset) {
  ReplacementRule rule = embedding_rule(name, bias);
  rule.tensors.push_back({"scale", example_vector()});
  if (with_offset) rule.tensors.push_back({"offset", example_vector()});
  rule.pattern = [bias, with_offset](PatternContext& p) {
    const auto [y, hidden] = norm_of_embedding(p, bias);
    return std::vector{ops::quantize(p.context(), y, p["scale"], argument_or_none(p, "offset", with_offset)), hidden};
  };
  rule.replacement = [bias, with_offset](PatternContext& p) {
    const auto [y, hidden] = ops::embedding_rms_norm_quantize(
        p.context(), p["ids"], p["table"], p["weight"], argument_or_none(p, "bias", bias), p["scale"],
        argument_or_none(p, "offset", with_offset), p.dtype("dtype"), p.number("epsilon"));
    return std::vector{y, hidden};
  };
  return rule;
}

ReplacementRule embedding_dynamic_rule(const char* name, bool bias, bool smooth) {
  ReplacementRule rule = embedding_rule(name, bias);
  if (smooth) rule.tensors.push_back({"smooth", example_vector()});
  rule.pattern = [bias, smooth](PatternContext& p) {
    const auto [y, hidden] = norm_of_embedding(p, bias);
    const ops::Quantized quantized = ops::dynamic_quantize(p.context(), y, argument_or_none(p, "smooth", smooth));
    return std::vector{quantized.values, quantized.scales, hidden};
  };
  rule.replacement = [bias, smooth](PatternContext& p) {
    const auto [y, hidden] = ops::embedding_rms_norm_dynamic_quantize(
        p.context(), p["ids"], p["table"], p["weight"], argument_or_none(p, "bias", bias),
        argument_or_none(p, "smooth", smooth), p.dtype("dtype"), p.number("epsilon"));
    return std::vector{y.values, y.scales, hidden};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_embedding_rms_norm_quantize(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(embedding_static_rule("embedding_rms_norm_quantize", false, false));
  set.add(embedding_static_rule("embedding_rms_norm_quantize_offset", false, true));
  set.add(embedding_static_rule("embedding_rms_norm_bias_quantize", true, false));
  set.add(embedding_static_rule("embedding_rms_norm_bias_quantize_offset", true, true));
  set.add(embedding_dynamic_rule("embedding_rms_norm_dynamic_quantize", false, false));
  set.add(embedding_dynamic_rule("embedding_rms_norm_dynamic_quantize_smooth", false, true));
  set.add(embedding_dynamic_rule("embedding_rms_norm_bias_dynamic_quantize", true, false));
  set.add(embedding_dynamic_rule("embedding_rms_norm_bias_dynamic_quantize_smooth", true, true));
  return set;
}

}  // namespace reprise::compile
