// A fusion of the program's own: where an addition is followed by a norm, one operator does both.
#include <cstdio>

#include "reprise/reprise.h"

using namespace reprise;

// Both sides of a fusion are ordinary operator calls. This one is of the catalogue too; the rule here asks for more
// than the catalogue's, as a kernel does that was written for the one width of a model.
compile::ReplacementRule add_norm_of_width_64() {
  compile::ReplacementRule rule;
  rule.name = "add_norm_of_width_64";
  // What the pattern takes. The sizes of the examples do not matter: a pattern is traced again with those of a match.
  const TensorMeta example(DType::kF32, {Dim::symbolic(Symbol::kTokens), 8});
  rule.tensors = {{"x", example}, {"residual", example}, {"weight", TensorMeta(DType::kF32, {8})}};
  // Any epsilon will do: the example is a number that nothing else in the pattern equals.
  rule.scalars = {{"epsilon", 2.5e-6}};
  rule.pattern = [](compile::PatternContext& p) {
    const Tensor sum = ops::add(p.context(), p["x"], p["residual"]);
    // What is returned may be used elsewhere in the graph. Other intermediates may not, or the pattern does not fit.
    return std::vector{ops::rms_norm(p.context(), sum, p["weight"], p.number("epsilon")), sum};
  };
  rule.replacement = [](compile::PatternContext& p) {
    const auto [y, sum] = ops::add_rms_norm(p.context(), p["x"], p["residual"], p["weight"], p.number("epsilon"));
    return std::vector{y, sum};
  };
  // Empty: replace. Anything else is the reason why not, which reports show.
  rule.check = [](const compile::Match& match) {
    const Dim width = match.meta("x").shape.back();
    return width == 64 ? "" : "the last dimension is " + width.to_string() + ", not 64";
  };
  return rule;
}

std::vector<Tensor> residual_block(Context& context, Tensor x, Tensor residual, Parameter weight) {
  const Tensor sum = ops::add(context, x, residual);
  return {ops::rms_norm(context, sum, weight, 1e-6), sum};
}

int main() {
  Library library = Library::open("cpu", 2);
  // For all methods that are compiled from here on.
  library.register_replacement(add_norm_of_width_64());

  MethodOptions options;
  options.name = "residual_block";
  options.argument_names = {"x", "residual", "weight"};
  // Only for this example: the catalogue's rule would take what ours leaves.
  options.compile.passes.disabled_passes = {"add_rms_norm"};
  MethodOptions plain = options;
  plain.compile.passes.pattern_fusion_pass = false;
  auto fused = library.compile(residual_block, options);
  auto unfused = library.compile(residual_block, plain);

  for (const int64_t width : {64, 96}) {
    const auto columns = static_cast<size_t>(width);
    const Tensor x = library.from_floats({3, width}, std::vector<float>(3 * columns, 0.5f));
    const Tensor residual = library.from_floats({3, width}, std::vector<float>(3 * columns, 0.25f));
    const Tensor weight = library.from_floats({width}, std::vector<float>(columns, 2.0f));
    const bool same =
        library.to_floats(fused(x, residual, weight)[0]) == library.to_floats(unfused(x, residual, weight)[0]);
    const graph::Graph& graph = fused.graph(fused.variants() - 1);
    std::printf("width %d:", static_cast<int>(width));
    for (const graph::NodeId id : graph.order()) std::printf(" %s", graph.node(id).op->name().c_str());
    std::printf("; the bits are %s\n", same ? "the same" : "others");
  }
  std::printf("\n%s", fused.explain().c_str());
}
