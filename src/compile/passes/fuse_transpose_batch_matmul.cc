#include <fmt/core.h>

#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/batch_matmul.h"
#include "ops/copies.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

/// The fused product is contiguous, so it stands for the copy of the transposed one; which axes are exchanged is part
/// of the pattern.
ReplacementRule matmul_rule(bool transpose_a, int64_t a_axis, int64_t y_axis) {
  ReplacementRule rule;
  rule.name = transpose_a ? fmt::format("transpose_batch_matmul_transpose_{}{}", a_axis, y_axis)
                          : fmt::format("batch_matmul_transpose_{}", y_axis);
  const TensorMeta example(DType::kF32, {2, 3, 4});
  rule.tensors = {{"a", example}, {"b", TensorMeta(DType::kF32, {transpose_a ? 3 : 2, 4, 5})}};
  rule.pattern = [=](PatternContext& p) {
    const Tensor a = transpose_a ? ops::transpose(p.context(), p["a"], a_axis, 1 - a_axis) : p["a"];
    const Tensor y = ops::batch_matmul(p.context(), a, p["b"]);
    return std::vector{ops::copy(p.context(), ops::transpose(p.context(), y, y_axis, 1 - y_axis))};
  };
  rule.replacement = [transpose_a](PatternContext& p) {
    return std::vector{ops::transpose_batch_matmul(p.context(), p["a"], p["b"], transpose_a)};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_transpose_batch_matmul(const ops::Registry& registry) {
  ReplacementSet set(registry);
  // The longer ones first. Axes 0 and 1 are exchanged whichever is named first.
  for (const int64_t y_axis : {int64_t{0}, int64_t{1}}) {
    for (const int64_t a_axis : {int64_t{0}, int64_t{1}}) set.add(matmul_rule(true, a_axis, y_axis));
  }
  for (const int64_t y_axis : {int64_t{0}, int64_t{1}}) set.add(matmul_rule(false, 0, y_axis));
  return set;
}

}  // namespace reprise::compile
