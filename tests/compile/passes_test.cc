#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/pass_manager.h"
#include "compile/passes/eliminate_dead_code.h"
#include "compile/passes/remove_noop_ops.h"
#include "compile/test_methods.h"
#include "graph/verify.h"
#include "ops/kv_cache.h"

namespace reprise::compile {

TEST(RemoveNoopOps, RemovesIdentitiesAndKeepsTheRest) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  Tensor y = ops::add(step.context, step.x, step.x);
  y = ops::reshape(step.context, y, {step.tokens, 4});
  y = ops::cast(step.context, y, DType::kF32);
  y = ops::slice(step.context, y, 1, 0, 4);
  y = ops::slice(step.context, y, 1, 0, 3);
  const Tensor z = ops::copy(step.context, y);
  graph::Graph graph = step.tracer.finish({&z, 1});
  const PassResult result = remove_noop_ops(graph);
  graph::verify(graph);
  EXPECT_EQ(result.matches, 3);
  EXPECT_EQ(graph.order().size(), 3u) << "add, the real slice and the copy that makes it contiguous";
}

TEST(RemoveNoopOps, AnOutputKeepsMemoryOfItsOwn) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor y = ops::copy(step.context, step.x);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const PassResult result = remove_noop_ops(graph);
  EXPECT_EQ(result.matches, 0);
  ASSERT_EQ(result.refusals.size(), 1u);
  EXPECT_NE(result.refusals[0].find("share the memory"), std::string::npos) << result.refusals[0];
}

TEST(RemoveNoopOps, ACopyOfACacheThatIsWrittenLaterStays) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor k_cache = weight({2, 2, 1, 4});
  const Tensor v_cache = weight({2, 2, 1, 4});
  step.context.slots = step.tracer.input("slots", TensorMeta(DType::kI32, {step.tokens}));
  const Tensor before = ops::copy(step.context, k_cache);
  const Tensor entry = ops::reshape(step.context, step.x, {step.tokens, 1, 4});
  ops::store_kv(step.context, entry, entry, k_cache, v_cache);
  const Tensor sum = ops::add(step.context, before, before);
  graph::Graph graph = step.tracer.finish({&sum, 1});
  const PassResult result = remove_noop_ops(graph);
  EXPECT_EQ(result.matches, 0);
  EXPECT_EQ(result.refusals.size(), 1u);
}

TEST(EliminateDeadCode, RemovesChainsAndParametersButNoEffects) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor k_cache = weight({2, 2, 1, 4});
  const Tensor v_cache = weight({2, 2, 1, 4});
  step.context.slots = step.tracer.input("slots", TensorMeta(DType::kI32, {step.tokens}));
  const Tensor entry = ops::reshape(step.context, step.x, {step.tokens, 1, 4});
  ops::store_kv(step.context, entry, entry, k_cache, v_cache);
  const Tensor unused = ops::rms_norm(step.context, step.x, weight({4}), 1e-6);
  ops::silu(step.context, unused);
  const Tensor y = ops::add(step.context, step.x, step.x);
  graph::Graph graph = step.tracer.finish({&y, 1});
  EXPECT_EQ(eliminate_dead_code(graph).matches, 2);
  graph::verify(graph);
  EXPECT_EQ(graph.order().size(), 3u);
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(PassManager, ReportsEachPassAndNamesTheOneThatFails) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor y = ops::add(step.context, step.x, step.x);
  ops::silu(step.context, y);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const std::vector<PassReport> reports = PassManager::standard(registry).run(graph);
  EXPECT_EQ(reports.front().pass, "remove_noop_ops");
  const auto dead_code = std::find_if(reports.begin(), reports.end(),
                                      [](const PassReport& report) { return report.pass == "eliminate_dead_code"; });
  ASSERT_NE(dead_code, reports.end());
  EXPECT_EQ(dead_code->nodes_before, 2);
  EXPECT_EQ(dead_code->nodes_after, 1);

  PassManager broken;
  broken.add({"break_names", [](graph::Graph& target) {
                target.mutable_value(target.inputs()[0]).name = "";
                return PassResult{1, {}};
              }});
  try {
    broken.run(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pass 'break_names' on graph 'method'"), std::string::npos)
        << error.what();
  }
}

}  // namespace reprise::compile
