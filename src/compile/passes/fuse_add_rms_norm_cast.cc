#include "base/error.h"
#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/copies.h"
#include "ops/fused_norm.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

/// `flatten`: the cast is of the rows [-1, D] of a norm of three axes.
ReplacementRule norm_cast(bool flatten) {
  ReplacementRule rule;
  rule.name = flatten ? "add_rms_norm_cast_flatten" : "add_rms_norm_cast";
  const Dim tokens = Dim::symbolic(Symbol::kTokens);
  const TensorMeta x(DType::kBF16, flatten ? Shape{tokens, 3, 8} : Shape{tokens, 8});
  rule.tensors = {{"x", x}, {"residual", x}, {"weight", example_vector()}};
  rule.scalars = {any_epsilon()};
  const auto flat = [flatten](PatternContext& p, const Tensor& y) {
    if (!flatten) return y;
    const Shape& shape = y.shape();
    if (shape.rank() != 3) throw Error(ErrorCode::kInvalidArgument, "flattened are three axes");
    return ops::reshape(p.context(), y, {shape[0] * shape.size(1), shape[2]});
  };
  rule.pattern = [flat](PatternContext& p) {
    const auto [y, sum] = ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], p.number("epsilon"));
    return std::vector{y, sum, ops::cast(p.context(), flat(p, y), DType::kF32)};
  };
  rule.replacement = [flat](PatternContext& p) {
    const ops::CastNormAndSum result =
        ops::add_rms_norm_cast(p.context(), p["x"], p["residual"], p["weight"], p.number("epsilon"));
    return std::vector{result.y, result.sum, flat(p, result.y_float32)};
  };
  return rule;
}

}  // namespace

ReplacementSet fuse_add_rms_norm_cast(const ops::Registry& registry) {
  ReplacementSet set(registry);
  set.add(norm_cast(false));
  set.add(norm_cast(true));
  return set;
}

}  // namespace reprise::compile
