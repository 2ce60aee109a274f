#include <functional>

#include "api/library_test_support.h"
#include "ops/checks.h"
#include "reprise/cpu_kernel.h"

namespace reprise {
namespace {

using Names = std::vector<std::string>;

struct SquareArguments {
  const float* x;
  float* y;
};

void square_elements(const void* block, int64_t first, int64_t last) {
  const auto& arguments = *static_cast<const SquareArguments*>(block);
  for (int64_t i = first; i < last; ++i) arguments.y[i] = arguments.x[i] * arguments.x[i];
}

constexpr CpuKernel kSquare{"square", square_elements};

void infer_square(const ops::OpCall& call, std::span<TensorMeta> outputs) {
  ops::require_dtype(call, 0, DType::kF32);
  ops::require_contiguous(call, 0);
  outputs[0] = call.inputs[0].meta();
}

void run_square(const ops::OpCall& call) {
  launch_cpu_kernel(call, kSquare, call.inputs[0].shape().elements(),
                    SquareArguments{call.inputs[0].data_as<float>(), call.outputs[0].data_as<float>()});
}

ops::OpDef square_op(bool with_kernel = true) {
  ops::OpDef op("square(Tensor x) -> Tensor y", {}, infer_square, nullptr);
  if (with_kernel) op.set_kernel("cpu", {.run = run_square});
  return op;
}

Tensor square(ops::ForwardContext& context, const Tensor& x,
              std::source_location where = std::source_location::current()) {
  return ops::dispatch_call(context, "square", {x}, {}, {}, where);
}

const TensorMeta kRows(DType::kF32, {Dim::symbolic(Symbol::kTokens), 8});

/// x * x becomes square(x): the same bits.
compile::ReplacementRule square_rule() {
  compile::ReplacementRule rule;
  rule.name = "square";
  rule.tensors = {{"x", kRows}};
  rule.pattern = [](compile::PatternContext& p) { return std::vector{ops::mul(p.context(), p["x"], p["x"])}; };
  rule.replacement = [](compile::PatternContext& p) { return std::vector{square(p.context(), p["x"])}; };
  return rule;
}

auto squares() {
  return [](Context& context, Tensor x) { return ops::add(context, ops::mul(context, x, x), x); };
}

class Registration : public LibraryTest {
 protected:
  void expect_right(CompiledMethod& method) {
    for (const int64_t rows : {3, 5}) {
      const std::array<compile::Argument, 1> arguments = {random({rows, 8}, 1)};
      const std::vector<float> x = numbers(rows * 8, 1);
      const std::vector<float> y = floats(method(arguments)[0]);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * x[i] + x[i]);
    }
  }
};

TEST_F(Registration, AnOperatorRunsInEveryMode) {
  library_.register_operator(square_op());
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    options.splitting_ops = {"square"};
    auto method =
        library_.compile([](Context& context, Tensor x) { return ops::add(context, square(context, x), x); }, options);
    expect_right(method);
  }
}

TEST_F(Registration, OperatorNamesAreTakenOnceAndKernelsMayBeMissing) {
  const std::string taken = error_of(ErrorCode::kInvalidArgument, [&] {
    library_.register_operator(ops::OpDef("add(Tensor x) -> Tensor y", {}, infer_square, nullptr));
  });
  expect_text(taken, "add");
  library_.register_operator(square_op(false));
  auto method = library_.compile([](Context& context, Tensor x) { return square(context, x); });
  for (int call = 0; call < 2; ++call) {
    expect_text(error_of(ErrorCode::kUnsupported, [&] { method(random({2, 8})); }), "square");
  }
  EXPECT_EQ(method.counters().captures, 0);
  library_.compile(silu_method())(random({2, 8}));
}

TEST_F(Registration, AReplacementHoldsForMethodsCompiledLater) {
  library_.register_operator(square_op());
  auto before = library_.compile(squares());
  library_.register_replacement(square_rule());
  auto after = library_.compile(squares());
  MethodOptions options;
  options.compile.passes.pattern_fusion_pass = false;
  auto without = library_.compile(squares(), options);
  expect_right(before);
  expect_right(after);
  expect_right(without);
  EXPECT_EQ(op_names(before), (Names{"mul", "add_"}));
  EXPECT_EQ(op_names(after), (Names{"square", "add_"}));
  EXPECT_EQ(op_names(without), (Names{"mul", "add_"}));
}

TEST_F(Registration, TheUsersReplacementsComeBeforeTheCatalogues) {
  compile::ReplacementRule rule;
  rule.name = "sum_stays";
  rule.tensors = {{"x", kRows}, {"weight", TensorMeta(DType::kF32, {8})}};
  rule.pattern = [](compile::PatternContext& p) {
    const Tensor sum = ops::add(p.context(), p["x"], p["x"]);
    return std::vector{ops::rms_norm(p.context(), sum, p["weight"], 1e-6)};
  };
  rule.replacement = [](compile::PatternContext& p) {
    return std::vector{ops::rms_norm(p.context(), p["x"], p["weight"], 2.5e-7)};
  };
  const auto norm = [](Context& context, Tensor x, Parameter weight) {
    return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
  };
  auto before = library_.compile(norm);
  library_.register_replacement(rule);
  auto after = library_.compile(norm);
  const Tensor x = random({3, 8});
  const Tensor weight = constant({8}, 1);
  before(x, weight);
  after(x, weight);
  EXPECT_EQ(op_names(before), Names{"add_rms_norm"});
  EXPECT_EQ(op_names(after), Names{"rms_norm"});
}

TEST_F(Registration, ReplacementsThatCannotBeAreRefusedWhereTheyAreRegistered) {
  library_.register_operator(square_op());
  library_.register_replacement(square_rule());
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.register_replacement(square_rule()); }),
              "replacement 'square': the name is taken");
  compile::ReplacementRule rule = square_rule();
  rule.name = "nothing";
  rule.pattern = [](compile::PatternContext& p) { return std::vector{p["x"]}; };
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.register_replacement(rule); }),
              "replacement 'nothing'");
  rule.pattern = [](compile::PatternContext& p) { return std::vector{ops::mul(p.context(), p["x"], p["y"])}; };
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.register_replacement(rule); }), "'y'");
  auto method = library_.compile(squares());
  expect_right(method);
  EXPECT_EQ(op_names(method), (Names{"square", "add_"}));
}

TEST_F(Registration, AReplacementThatChangesDTypeOrShapeLeavesTheGraphAloneAndSaysWhy) {
  compile::ReplacementRule rule = square_rule();
  rule.name = "half";
  rule.replacement = [](compile::PatternContext& p) {
    return std::vector{ops::cast(p.context(), ops::mul(p.context(), p["x"], p["x"]), DType::kBF16)};
  };
  library_.register_replacement(rule);
  rule.name = "narrow";
  rule.replacement = [](compile::PatternContext& p) {
    return std::vector{ops::silu(p.context(), ops::slice(p.context(), p["x"], 1, 0, 4))};
  };
  library_.register_replacement(rule);
  auto method = library_.compile(squares());
  expect_right(method);
  EXPECT_EQ(op_names(method), (Names{"mul", "add_"}));
  const std::string text = method.explain();
  expect_text(text, "half: result 0 would be bfloat16[3, 8] in place of float32[3, 8]");
  expect_text(text, "registration_test.cc:");
}

TEST_F(Registration, APatternThatNeverEndsIsNamedAndTheLibraryWorksOn) {
  compile::ReplacementRule rule;
  rule.name = "again";
  rule.tensors = {{"x", kRows}};
  rule.pattern = [](compile::PatternContext& p) { return std::vector{ops::silu(p.context(), p["x"])}; };
  rule.replacement = [](compile::PatternContext& p) {
    return std::vector{ops::silu(p.context(), ops::silu(p.context(), p["x"]))};
  };
  library_.register_replacement(rule);
  auto endless = library_.compile(silu_method(), named("endless"));
  for (int call = 0; call < 2; ++call) {
    const std::string error = error_of(ErrorCode::kInvalidArgument, [&] { endless(random({3, 8})); });
    expect_text(error, "replacement 'again' never ends");
    expect_text(error, "endless");
  }
  MethodOptions options;
  options.compile.passes.pattern_fusion_pass = false;
  auto method = library_.compile(silu_method(), options);
  method(random({3, 8}));
  auto other = library_.compile(squares());
  expect_right(other);
}

TEST_F(Registration, APassThatBreaksTheGraphIsNamedAndTheLibraryWorksOn) {
  MethodOptions options = named("m");
  bool bad = true;
  options.compile.passes.pre_passes = {{"breaking", [&bad](graph::Graph& graph) {
                                          if (bad) graph.mutable_value(graph.inputs()[0]).name = "";
                                          return compile::PassResult{};
                                        }}};
  auto method = library_.compile(squares(), options);
  expect_text(error_of(ErrorCode::kInternal, [&] { method(random({3, 8})); }), "pass 'breaking' on graph 'm'");
  bad = false;
  expect_right(method);
}

TEST_F(Registration, CopiesOfALibraryShareWhatIsRegistered) {
  Library copy = library_;
  copy.register_operator(square_op());
  copy.register_replacement(square_rule());
  auto method = library_.compile(squares());
  expect_right(method);
  EXPECT_EQ(op_names(method), (Names{"square", "add_"}));
}

TEST_F(Registration, AMethodOutlivesItsLibrary) {
  std::optional<Compiled<Tensor, Tensor>> method;
  Tensor x;
  {
    Library library = Library::open("cpu", 1);
    x = random_tensor(library, {3, 8}, 1);
    method.emplace(library.compile(squares()));
  }
  const Tensor y = (*method)(x);
  EXPECT_EQ(y.size(0), 3);
  EXPECT_EQ(method->counters().replays, 1);
}

TEST_F(Registration, APassThatChangesWhatTheGraphTakesOrGivesIsNamed) {
  const auto refused = [&](std::function<void(graph::Graph&)> change) {
    MethodOptions options;
    options.compile.passes.post_passes.push_back({"changes", [change](graph::Graph& graph) {
                                                    change(graph);
                                                    return compile::PassResult{};
                                                  }});
    auto method = library_.compile(silu_method(), options);
    const std::string text = error_of(ErrorCode::kInternal, [&] { method(random({2, 4})); });
    expect_text(text, "pass 'changes'");
    expect_text(text, "it changes what graph");
  };
  refused([](graph::Graph& graph) { graph.set_outputs({}); });
  refused([](graph::Graph& graph) { graph.set_outputs({graph.outputs()[0], graph.outputs()[0]}); });
  refused([](graph::Graph& graph) { graph.add_input("more", TensorMeta(DType::kF32, {2})); });
  refused([](graph::Graph& graph) { graph.add_symbol("more", 1, 2); });
  refused([](graph::Graph& graph) { graph = graph::Graph("other"); });
  auto method = library_.compile(silu_method());
  EXPECT_EQ(method(random({2, 4})).size(0), 2);
}

}  // namespace
}  // namespace reprise
