#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/norm.h"

namespace reprise::compile {

ReplacementSet fuse_embedding_rms_norm(const ops::Registry& registry) {
  ReplacementRule rule;
  rule.name = "embedding_rms_norm";
  rule.tensors = {
      {"ids", example_positions()}, {"table", TensorMeta(DType::kF32, {32, 8})}, {"weight", example_vector()}};
  rule.scalars = {any_epsilon(), {"dtype", DType::kF32}};
  rule.pattern = [](PatternContext& p) {
    const Tensor hidden = ops::embedding(p.context(), p["ids"], p["table"], p.dtype("dtype"));
    return std::vector{ops::rms_norm(p.context(), hidden, p["weight"], p.number("epsilon")), hidden};
  };
  rule.replacement = [](PatternContext& p) {
    const auto [y, hidden] =
        ops::embedding_rms_norm(p.context(), p["ids"], p["table"], p["weight"], p.dtype("dtype"), p.number("epsilon"));
    return std::vector{y, hidden};
  };
  ReplacementSet set(registry);
  set.add(std::move(rule));
  return set;
}

}  // namespace reprise::compile
