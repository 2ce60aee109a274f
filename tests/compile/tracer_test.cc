#include "compile/tracer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/test_methods.h"
#include "graph/text_writer.h"
#include "graph/verify.h"
#include "ops/dispatch_call.h"

namespace reprise::compile {
namespace {

void infer_same(const ops::OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = call.inputs[0].meta(); }

Tensor call_op(ops::ForwardContext& context, const char* op, const Tensor& x) {
  return ops::dispatch_call(context, op, {x}, {}, {}, std::source_location::current());
}

/// What breaks the graph, as text.
std::string break_of(const ops::Registry& registry, const char* op) {
  TracedStep step(registry);
  try {
    call_op(step.context, op, step.x);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kGraphBreak);
    return error.what();
  }
  return "no break";
}

}  // namespace

TEST(Tracer, RecordsOperatorsWithTheLineOfModelCode) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor norm = weight({4});
  step.tracer.name_parameter("norm.weight", norm);
  const Tensor y = ops::rms_norm(step.context, step.x, norm, 1e-6);
  const Tensor z = ops::add(step.context, y, ops::rms_norm(step.context, y, norm, 1e-6));
  const graph::Graph graph = step.tracer.finish({&z, 1});
  graph::verify(graph);
  EXPECT_EQ(graph.order().size(), 3u);
  EXPECT_EQ(graph.parameters().size(), 1u) << "one weight used twice is one parameter";
  const std::string text = graph::to_text(graph);
  EXPECT_NE(text.find("\"norm.weight\" : float32[4]"), std::string::npos) << text;
  EXPECT_NE(text.find("# tracer_test.cc:"), std::string::npos) << text;
  EXPECT_NE(text.find("float32[s0, 4]"), std::string::npos) << text;
}

TEST(Tracer, ViewsOfOneWeightAreParametersOfTheirOwn) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  std::vector<float> memory(8);
  const Tensor whole(TensorMeta(DType::kF32, {8}), std::make_shared<Storage>(memory.data(), 32));
  const Tensor half = whole.with_meta(TensorMeta(DType::kF32, {4}));
  step.tracer.name_parameter("weight", whole);
  const Tensor y = ops::rms_norm(step.context, step.x, half, 1e-6);
  const Tensor z = ops::add(step.context, y, y);
  const graph::Graph graph = step.tracer.finish({&z, 1});
  EXPECT_EQ(graph.parameters().size(), 1u);
  EXPECT_EQ(graph.value(graph.parameters()[0]).meta, half.meta());
}

TEST(Tracer, BreaksNameOperatorLineAndRemedy) {
  ops::Registry registry = ops::make_catalogue();
  registry.add(ops::OpDef("dropout(Tensor x) -> Tensor y", {.random = true}, infer_same, nullptr));
  registry.add(ops::OpDef("item(Tensor x) -> Tensor y", {.syncs = true}, infer_same, nullptr));
  registry.add(ops::OpDef("mystery(Tensor x) -> Tensor y", {}, nullptr, nullptr));
  const std::string random = break_of(registry, "dropout");
  EXPECT_NE(random.find("tracer_test.cc:"), std::string::npos) << random;
  EXPECT_NE(random.find("'dropout' cannot be part of a graph: it draws random numbers"), std::string::npos) << random;
  EXPECT_NE(break_of(registry, "item").find("reads device data on the host"), std::string::npos);
  EXPECT_NE(break_of(registry, "mystery").find("no shape function"), std::string::npos);
}

TEST(Tracer, BranchOnASymbolicDimensionIsABreak) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  EXPECT_THROW(static_cast<void>(step.x.size(0)), Error);
}

TEST(Tracer, ConstantHostListAndForeignResultAreBreaks) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  const Tensor outside = weight({4});
  EXPECT_THROW(step.tracer.finish({&outside, 1}), Error);
}

TEST(Tracer, AFaultyCallNamesTheLine) {
  const ops::Registry registry = ops::make_catalogue();
  TracedStep step(registry);
  try {
    ops::rms_norm(step.context, step.x, weight({5}), 1e-6);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("tracer_test.cc:"), std::string::npos) << error.what();
  }
}

}  // namespace reprise::compile
