#include "compile/passes/examples.h"
#include "compile/passes/fusions.h"
#include "ops/elementwise.h"
#include "ops/swiglu.h"

namespace reprise::compile {

ReplacementSet fuse_swiglu(const ops::Registry& registry) {
  ReplacementRule rule;
  rule.name = "swiglu";
  rule.tensors = {{"gate", example_rows()}, {"up", example_rows()}};
  rule.pattern = [](PatternContext& p) {
    return std::vector{ops::mul(p.context(), ops::silu(p.context(), p["gate"]), p["up"])};
  };
  rule.replacement = [](PatternContext& p) { return std::vector{ops::swiglu(p.context(), p["gate"], p["up"])}; };
  ReplacementSet set(registry);
  set.add(std::move(rule));
  return set;
}

}  // namespace reprise::compile
