#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/batch_matmul.h"
#include "ops/copies.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

/// The fused product is contiguous, so it stands for the copy of the transposed one; which axes are exchanged is part
/// of the pattern.
ReplacementRule matmul_rule(bool transpose_a) {
  ReplacementRule rule;
  rule.name = transpose_a ? "transpose_batch_matmul_transpose" : "batch_matmul_transpose";
  const TensorMeta example(DType::kF32, {2, 3, 4});
  rule.tensors = {{"a", example}, {"b", TensorMeta(DType::kF32, {transpose_a ? 3 : 2, 4, 5})}};
  rule.pattern = [transpose_a](PatternContext& p) {
    const Tensor a = transpose_a ? ops::transpose(p.context(), p["a"], 0, 1) : p["a"];
    const Tensor y = ops::batch_matmul(p.context(), a, p["b"]);
    return std::vector{ops::copy(p.context(), ops::transpose(p.context(), y, 0, 1))};
  };
  rule.replacement = [transpose_a](PatternContext& p) {
    return std::vector{ops::transpose_batch_matmul(p.context(), p["a"], p["b"], transpose_a)};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_transpose_batch_matmul(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(matmul_rule(true));  // the longer one first
  set.add(matmul_rule(false));
  return set;
}

}  // namespace reprise::compile
