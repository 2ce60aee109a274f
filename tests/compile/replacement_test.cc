#include "compile/replacement.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/pass_manager.h"
#include "compile/passes/eliminate_dead_code.h"
#include "compile/test_methods.h"
#include "graph/text_writer.h"
#include "graph/verify.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"

namespace reprise::compile {
namespace {

const TensorMeta kTokenRows(DType::kF32, {Dim::symbolic(Symbol::kTokens), 8});

void infer_add_norm(const ops::OpCall& call, std::span<TensorMeta> outputs) {
  ops::require_shape(call, 1, call.inputs[0].shape());
  ops::require_same_dtype(call, 1, 0);
  outputs[0] = outputs[1] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_half(const ops::OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = TensorMeta(DType::kBF16, call.inputs[0].shape());
}

void infer_overwrite(const ops::OpCall&, std::span<TensorMeta>) {}

/// The catalogue and a user's operators.
ops::Registry make_registry() {
  ops::Registry registry = ops::make_catalogue();
  registry.add(ops::OpDef("my_add_norm(Tensor a, Tensor b, Tensor weight, *, float epsilon) -> Tensor y, Tensor sum",
                          {}, infer_add_norm, nullptr));
  registry.add(ops::OpDef("my_half(Tensor x) -> Tensor y", {}, infer_half, nullptr));
  registry.add(ops::OpDef("overwrite(Tensor! x, Tensor y) -> ()", {}, infer_overwrite, nullptr));
  return registry;
}

std::vector<Tensor> my_add_norm(PatternContext& p, double epsilon) {
  const Tensor inputs[] = {p["a"], p["b"], p["weight"]};
  const ops::Attribute attributes[] = {epsilon};
  std::vector<Tensor> outputs(2);
  p.context().dispatcher.dispatch("my_add_norm", inputs, {}, attributes, outputs, std::source_location::current());
  return outputs;
}

/// A fusion of one's own: all that there is to write.
ReplacementRule add_norm_rule() {
  ReplacementRule rule;
  rule.name = "my_add_norm";
  rule.tensors = {{"a", kTokenRows}, {"b", kTokenRows}, {"weight", TensorMeta(DType::kF32, {8})}};
  rule.scalars = {{"epsilon", 2.5e-6}};
  rule.pattern = [](PatternContext& p) {
    const Tensor sum = ops::add(p.context(), p["a"], p["b"]);
    return std::vector{ops::rms_norm(p.context(), sum, p["weight"], p.number("epsilon")), sum};
  };
  rule.replacement = [](PatternContext& p) { return my_add_norm(p, p.number("epsilon")); };
  rule.check = [](const Match& match) -> std::string {
    return match.meta("a").shape.back() == Dim(4) ? "" : "the kernel wants rows of 4";
  };
  return rule;
}

PassResult run(const ops::Registry& registry, ReplacementRule rule, graph::Graph& graph, RewriteOptions options = {}) {
  ReplacementSet set(registry);
  set.add(std::move(rule));
  PassResult result = set.run(graph, options);
  graph::verify(graph);
  return result;
}

std::string refusal_of(const PassResult& result) {
  EXPECT_EQ(result.matches, 0);
  EXPECT_EQ(result.refusals.size(), 1u);
  return result.refusals.empty() ? "" : result.refusals[0];
}

template <typename Function>
std::string refusal_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(Replacement, FusesWhatFitsWithItsOwnShapesAndScalars) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor other = ops::silu(step.context, step.x);
  const Tensor sum = ops::add(step.context, step.x, other);
  const Tensor y = ops::rms_norm(step.context, sum, weight({4}), 1e-5);
  const Tensor z = ops::add(step.context, sum, y);
  graph::Graph graph = step.tracer.finish({&z, 1});
  const PassResult result = run(registry, add_norm_rule(), graph);
  EXPECT_EQ(result.matches, 1);
  EXPECT_TRUE(result.refusals.empty());
  const std::string text = graph::to_text(graph);
  EXPECT_NE(text.find("my_add_norm(%x, %silu, %w0) {epsilon = 1e-05}"), std::string::npos) << text;
  EXPECT_NE(text.find("add(%my_add_norm_sum, %my_add_norm_y)"), std::string::npos) << text;
  EXPECT_EQ(graph.order().size(), 3u);
  EXPECT_NE(text.find("# replacement_test.cc:"), std::string::npos) << "the line of the method, not of the rule";
}

TEST(Replacement, CommutativeArgumentsMatchInEitherOrder) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule;
  rule.name = "norm_plus";
  rule.tensors = {{"a", kTokenRows}, {"b", kTokenRows}, {"weight", TensorMeta(DType::kF32, {8})}};
  rule.pattern = [](PatternContext& p) {
    return std::vector{ops::add(p.context(), ops::rms_norm(p.context(), p["a"], p["weight"], 1e-6), p["b"])};
  };
  rule.replacement = [](PatternContext& p) { return std::vector{my_add_norm(p, 1e-6)[0]}; };
  TracedStep step(registry);
  const Tensor norm = ops::rms_norm(step.context, step.x, weight({4}), 1e-6);
  const Tensor y = ops::add(step.context, ops::silu(step.context, step.x), norm);
  graph::Graph graph = step.tracer.finish({&y, 1});
  EXPECT_EQ(run(registry, rule, graph).matches, 1);
}

TEST(Replacement, ACheckRefusesWithPlaceAndReason) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor wide = ops::reshape(step.context, step.x, {step.tokens, 2, 2});
  const Tensor y = ops::rms_norm(step.context, ops::add(step.context, wide, wide), weight({2}), 1e-5);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const std::string refusal = refusal_of(run(registry, add_norm_rule(), graph));
  EXPECT_NE(refusal.find("replacement_test.cc:"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("rms_norm: my_add_norm: the kernel wants rows of 4"), std::string::npos) << refusal;
}

TEST(Replacement, B56AnIntermediateThatOthersUseRefuses) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule = add_norm_rule();
  rule.pattern = [](PatternContext& p) {
    const Tensor sum = ops::add(p.context(), p["a"], p["b"]);
    return std::vector{ops::rms_norm(p.context(), sum, p["weight"], p.number("epsilon"))};
  };
  rule.replacement = [](PatternContext& p) { return std::vector{my_add_norm(p, p.number("epsilon"))[0]}; };
  for (const bool returned : {false, true}) {
    TracedStep step(registry);
    const Tensor sum = ops::add(step.context, step.x, step.x);
    const Tensor y = ops::rms_norm(step.context, sum, weight({4}), 1e-5);
    const Tensor outputs[] = {y, returned ? sum : ops::silu(step.context, sum)};
    graph::Graph graph = step.tracer.finish(outputs);
    const std::string refusal = refusal_of(run(registry, rule, graph));
    EXPECT_NE(refusal.find(returned ? "%add is an output of the graph" : "%add is used outside the pattern, by"),
              std::string::npos)
        << refusal;
  }
}

TEST(Replacement, AnArgumentThatThePatternMakesRefuses) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule;
  rule.name = "gated";
  rule.tensors = {{"gate", kTokenRows}, {"up", kTokenRows}};
  rule.pattern = [](PatternContext& p) {
    return std::vector{ops::mul(p.context(), ops::silu(p.context(), p["gate"]), p["up"])};
  };
  rule.replacement = [](PatternContext& p) { return std::vector{ops::mul(p.context(), p["gate"], p["up"])}; };
  TracedStep step(registry);
  const Tensor gate = ops::silu(step.context, step.x);
  const Tensor y = ops::mul(step.context, gate, gate);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const std::string refusal = refusal_of(run(registry, rule, graph));
  EXPECT_NE(refusal.find("%silu is made by the pattern's operators and taken by them"), std::string::npos) << refusal;
}

TEST(Replacement, AWriteInBetweenRefuses) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor buffer = weight({8, 4});
  const Tensor rows = step.tracer.input("rows", TensorMeta(DType::kF32, {8, 4}));
  const Tensor sum = ops::add(step.context, buffer, rows);
  const Tensor inputs[] = {buffer, rows};
  step.context.dispatcher.dispatch("overwrite", inputs, {}, {}, {}, std::source_location::current());
  const Tensor y = ops::rms_norm(step.context, sum, weight({4}), 1e-5);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const std::string refusal = refusal_of(run(registry, add_norm_rule(), graph));
  EXPECT_NE(refusal.find("overwrite writes %w0 between the pattern's operators"), std::string::npos) << refusal;
}

TEST(Replacement, ResultsUsedBeforeThePatternsLastOperatorKeepTheirOrder) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor sum = ops::add(step.context, step.x, step.x);
  const Tensor early = ops::silu(step.context, sum);
  const Tensor y = ops::rms_norm(step.context, sum, weight({4}), 1e-5);
  const Tensor z = ops::add(step.context, early, y);
  graph::Graph graph = step.tracer.finish({&z, 1});
  EXPECT_EQ(run(registry, add_norm_rule(), graph).matches, 1);
  EXPECT_EQ(graph.node(graph.order()[0]).op->name(), "my_add_norm");
}

TEST(Replacement, AnArgumentMadeTooLateRefuses) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor sum = ops::add(step.context, step.x, step.x);
  const Tensor late =
      ops::reshape(step.context, ops::slice(step.context, ops::copy(step.context, weight({2, 4})), 0, 0, 1), {4});
  static_cast<void>(late);
  const Tensor early = ops::silu(step.context, sum);
  const Tensor scale = ops::reshape(step.context, ops::copy(step.context, weight({1, 4})), {4});
  const Tensor y = ops::rms_norm(step.context, sum, scale, 1e-5);
  const Tensor z = ops::add(step.context, early, y);
  graph::Graph graph = step.tracer.finish({&z, 1});
  const std::string refusal = refusal_of(run(registry, add_norm_rule(), graph));
  EXPECT_NE(refusal.find("is made behind a use of the pattern's results"), std::string::npos) << refusal;
}

TEST(Replacement, B56ChangedDTypeShapeOrCountIsRefused) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule;
  rule.name = "half";
  rule.tensors = {{"x", kTokenRows}};
  rule.pattern = [](PatternContext& p) { return std::vector{ops::silu(p.context(), p["x"])}; };
  const auto refuse = [&](PatternFunction replacement) {
    TracedStep step(registry);
    const Tensor y = ops::silu(step.context, step.x);
    graph::Graph graph = step.tracer.finish({&y, 1});
    rule.replacement = std::move(replacement);
    return refusal_of(run(registry, rule, graph));
  };
  EXPECT_NE(refuse([](PatternContext& p) {
              return std::vector{
                  ops::dispatch_call(p.context(), "my_half", {p["x"]}, {}, {}, std::source_location::current())};
            }).find("result 0 would be bfloat16[s0, 4] in place of float32[s0, 4]"),
            std::string::npos);
  EXPECT_NE(refuse([](PatternContext& p) {
              return std::vector{ops::slice(p.context(), ops::silu(p.context(), p["x"]), 1, 0, 2)};
            }).find("in place of float32[s0, 4]"),
            std::string::npos);
  EXPECT_NE(refuse([](PatternContext&) { return std::vector<Tensor>(); }).find("returns 1 tensors, the replacement 0"),
            std::string::npos);
  EXPECT_NE(refuse([](PatternContext& p) { return std::vector{p["x"]}; }).find("share the memory"), std::string::npos);
  EXPECT_NE(refuse([](PatternContext& p) {
              return std::vector{ops::add(p.context(), p["x"], p["y"])};
            }).find("the replacement cannot be made: a pattern asks for the tensor 'y'"),
            std::string::npos);
}

TEST(Replacement, APatternThatNeverEndsIsNamed) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule;
  rule.name = "silu_of_silu";
  rule.tensors = {{"x", kTokenRows}};
  rule.pattern = [](PatternContext& p) { return std::vector{ops::silu(p.context(), p["x"])}; };
  rule.replacement = [](PatternContext& p) {
    return std::vector{ops::silu(p.context(), ops::silu(p.context(), p["x"]))};
  };
  TracedStep step(registry);
  const Tensor y = ops::silu(step.context, step.x);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const std::string error = refusal_of([&] { run(registry, rule, graph); });
  EXPECT_NE(error.find("replacement 'silu_of_silu' never ends"), std::string::npos) << error;
}

TEST(Replacement, InexactOnesAreOffUntilAskedFor) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule = add_norm_rule();
  rule.inexact = true;
  TracedStep step(registry);
  const Tensor y = ops::rms_norm(step.context, ops::add(step.context, step.x, step.x), weight({4}), 1e-5);
  graph::Graph graph = step.tracer.finish({&y, 1});
  EXPECT_NE(refusal_of(run(registry, rule, graph)).find("it is inexact"), std::string::npos);
  EXPECT_EQ(run(registry, rule, graph, {.device = "", .allow_inexact = true}).matches, 1);
}

TEST(Replacement, ADeviceWithoutTheKernelRefuses) {
  const ops::Registry registry = make_registry();
  TracedStep step(registry);
  const Tensor y = ops::rms_norm(step.context, ops::add(step.context, step.x, step.x), weight({4}), 1e-5);
  graph::Graph graph = step.tracer.finish({&y, 1});
  const PassResult result = run(registry, add_norm_rule(), graph, {.device = "cpu", .allow_inexact = false});
  EXPECT_NE(refusal_of(result).find("device 'cpu' has no kernel for my_add_norm"), std::string::npos);
}

TEST(Replacement, ResultsThatDoNotDependOnEachOtherAreFound) {
  const ops::Registry registry = make_registry();
  ReplacementRule rule;
  rule.name = "halves";
  rule.tensors = {{"x", kTokenRows}};
  rule.pattern = [](PatternContext& p) {
    const int64_t half = p["x"].size(1) / 2;
    const Tensor left = ops::silu(p.context(), ops::slice(p.context(), p["x"], 1, 0, half));
    return std::vector{left, ops::silu(p.context(), ops::slice(p.context(), p["x"], 1, half, 2 * half))};
  };
  rule.replacement = [](PatternContext& p) {
    const int64_t half = p["x"].size(1) / 2;
    const Tensor y = ops::silu(p.context(), p["x"]);
    return std::vector{ops::copy(p.context(), ops::slice(p.context(), y, 1, 0, half)),
                       ops::copy(p.context(), ops::slice(p.context(), y, 1, half, 2 * half))};
  };
  TracedStep step(registry);
  const Tensor right = ops::silu(step.context, ops::slice(step.context, step.x, 1, 2, 4));
  const Tensor left = ops::silu(step.context, ops::slice(step.context, step.x, 1, 0, 2));
  const Tensor outputs[] = {left, right};
  graph::Graph graph = step.tracer.finish(outputs);
  EXPECT_EQ(run(registry, rule, graph).matches, 1);
  const graph::Node& first =
      graph.node(graph.value(graph.value(graph.outputs()[0]).producer == -1 ? 0 : graph.outputs()[0]).producer);
  EXPECT_EQ(std::get<int64_t>(graph.node(graph.value(first.inputs[0]).producer).attributes[1]), 0);
}

TEST(ReplacementSet, RefusesBrokenRulesByName) {
  const ops::Registry registry = make_registry();
  ReplacementSet set(registry);
  set.add(add_norm_rule());
  EXPECT_NE(refusal_of([&] { set.add(add_norm_rule()); }).find("replacement 'my_add_norm': the name is taken"),
            std::string::npos);
  ReplacementRule rule = add_norm_rule();
  rule.name = "other";
  rule.scalars.push_back({"delta", 2.5e-6});
  EXPECT_NE(refusal_of([&] { set.add(rule); }).find("have the same example"), std::string::npos);
  rule.scalars[1].example = 0.25;
  EXPECT_NE(refusal_of([&] { set.add(rule); }).find("no attribute of the pattern is 'delta'"), std::string::npos);
  rule.scalars.pop_back();
  rule.tensors.push_back({"extra", kTokenRows});
  EXPECT_NE(refusal_of([&] { set.add(rule); }).find("does not use 'extra'"), std::string::npos);
  rule.tensors.pop_back();
  rule.pattern = [](PatternContext& p) { return std::vector{p["a"]}; };
  EXPECT_NE(refusal_of([&] { set.add(rule); }).find("has no operators"), std::string::npos);
  rule.pattern = [](PatternContext& p) {
    ops::rms_norm(p.context(), p["b"], p["weight"], p.number("epsilon"));
    return std::vector{ops::silu(p.context(), p["a"])};
  };
  EXPECT_NE(refusal_of([&] { set.add(rule); }).find("not connected"), std::string::npos);
  EXPECT_EQ(set.size(), 1u);
}

TEST(PassManager, UserReplacementsRunUnderTheirSwitchAndUnknownPassesAreRefused) {
  const ops::Registry registry = make_registry();
  PassOptions options;
  options.replacements.emplace_back(registry);
  options.replacements[0].add(add_norm_rule());
  for (const bool enabled : {true, false}) {
    TracedStep step(registry);
    const Tensor y = ops::rms_norm(step.context, ops::add(step.context, step.x, step.x), weight({4}), 1e-5);
    graph::Graph graph = step.tracer.finish({&y, 1});
    options.pattern_fusion_pass = enabled;
    PassManager::standard(registry, options).run(graph);
    EXPECT_EQ(graph.node(graph.order()[0]).op->name() == "my_add_norm", enabled);
  }
  options.disabled_passes = {"remove_noop_opz"};
  EXPECT_NE(refusal_of([&] { PassManager::standard(registry, options); }).find("did you mean 'remove_noop_ops'"),
            std::string::npos);
}

}  // namespace reprise::compile
