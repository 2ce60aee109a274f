#include "api/library_test_support.h"
#include "graph/text_parser.h"

namespace reprise {
namespace {

class CompileGraph : public LibraryTest {
 protected:
  graph::Graph parse(std::string_view text) const { return graph::parse(text, library_.registry()); }
};

constexpr std::string_view kSum = R"(graph sum {
  symbol s0 rows [2, 64]
  input %x : float32[s0, 8]
  input %y : float32[s0, 8]
  input %bias : float32[8]
  %a = add(%x, %y) : float32[s0, 8]
  %b = rms_norm(%a, %bias) {epsilon = 1e-06} : float32[s0, 8]
  return %b
})";

TEST_F(CompileGraph, RunsForEverySizeOfItsSymbolsInEveryMode) {
  auto reference = library_.compile([](Context& context, Tensor x, Tensor y, Tensor bias) {
    return ops::rms_norm(context, ops::add(context, x, y), bias, 1e-6);
  });
  for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    options.splitting_ops = {"add"};
    CompiledMethod method = library_.compile_graph(parse(kSum), options);
    const Tensor bias = random({8}, 3);
    for (const int64_t rows : {2, 5, 64, 2}) {
      const Tensor x = random({rows, 8}, 1);
      const Tensor y = random({rows, 8}, 2);
      const std::array<compile::Argument, 3> arguments = {x, y, bias};
      EXPECT_EQ(floats(method(arguments)[0]), floats(reference(x, y, bias))) << name_of(mode);
    }
    EXPECT_EQ(method.variants(), 1);
    EXPECT_EQ(method.counters().traces, 0);
    EXPECT_EQ(method.counters().captures, mode == Mode::kFull || mode == Mode::kPiecewise ? 3 : 0);
  }
}

TEST_F(CompileGraph, ArgumentsThatDoNotFitAreErrorsNotReasonsToTraceAgain) {
  CompiledMethod method = library_.compile_graph(parse(kSum));
  const auto call = [&](std::vector<compile::Argument> arguments) { return method(arguments); };
  const auto misfit = [&](Tensor x, Tensor y, Tensor bias) {
    return error_of(ErrorCode::kInvalidArgument, [&] { call({x, y, bias}); });
  };
  const Tensor x = random({4, 8});
  const Tensor bias = random({8});
  expect_text(misfit(random({5, 8}), x, bias), "graph 'sum': y.size(0) = 4, x.size(0) = 5, but y.size(0) == x.size(0)");
  expect_text(misfit(random({1, 8}), random({1, 8}), bias), "x.size(0) = 1, but 2 <= x.size(0)");
  expect_text(misfit(random({65, 8}), random({65, 8}), bias), "x.size(0) = 65, but x.size(0) <= 64");
  expect_text(misfit(random({4, 9}), random({4, 9}), bias), "x.size(1) = 9, but x.size(1) == 8");
  expect_text(misfit(x, x, random({1, 8})), "bias.rank = 2, but bias.rank == 1");
  expect_text(misfit(x, x, library_.empty(TensorMeta(DType::kBF16, {8}))), "bias.dtype = bfloat16");
  expect_text(misfit(x, Tensor(), bias), "y is not given, but y is given");
  TensorMeta strided(DType::kF32, {4, 8});
  strided.strides[0] = 16;
  expect_text(misfit(x, random({4, 16}).with_meta(strided), bias), "y.stride(0) = 16, but y.stride(0) == 8");
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { call({x, x}); }), "sum takes 3 arguments, 2 are given");
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { call({x, x, int64_t{1}}); }), "argument 'bias' is no tensor");
  EXPECT_EQ(call({x, x, bias}).size(), 1u);
  EXPECT_EQ(method.variants(), 1);
}

TEST_F(CompileGraph, ModeEagerAndUnboundParametersAreRefused) {
  MethodOptions options;
  options.mode = Mode::kEager;
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile_graph(parse(kSum), options); }),
              "use aot_eager");
  constexpr std::string_view kText = R"(graph norm {
  input %x : float32[2, 8]
  parameter %w0 "norm.weight" : float32[8]
  %y = rms_norm(%x, %w0) {epsilon = 1e-06} : float32[2, 8]
  return %y
})";
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile_graph(parse(kText)); }),
              "parameter 'norm.weight' is not bound to memory");
  graph::Graph graph = parse(kText);
  graph.bind_parameter(graph.parameters()[0], constant({8}, 2));
  CompiledMethod method = library_.compile_graph(std::move(graph));
  const std::array<compile::Argument, 1> arguments = {constant({2, 8}, 3)};
  EXPECT_NEAR(floats(method(arguments)[0])[0], 2, 1e-6);
}

TEST_F(CompileGraph, ASymbolThatNoInputGivesIsRefused) {
  constexpr std::string_view kText = R"(graph odd {
  symbol s0 rows [2, 64]
  input %x : float32[2*s0, 8]
  %y = silu(%x) : float32[2*s0, 8]
  return %y
})";
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile_graph(parse(kText)); }),
              "no input has the size rows");
}

TEST_F(CompileGraph, WritesInputsAndGivesViewsOfThemBack) {
  CompiledMethod method = library_.compile_graph(parse(R"(graph state {
  input %state : float32[2, 4]
  input %y : float32[2, 4]
  %sum = add(%state, %y) : float32[2, 4]
  copy_(%state, %sum)
  %flat = reshape(%state) {shape = [8]} : float32[8]
  return %flat
})"));
  const Tensor state = constant({2, 4}, 1);
  const std::array<compile::Argument, 2> arguments = {state, constant({2, 4}, 2)};
  for (int call = 0; call < 3; ++call) EXPECT_EQ(method(arguments)[0].data(), state.data());
  EXPECT_EQ(floats(state), std::vector<float>(8, 7));
  EXPECT_EQ(op_names(method), (std::vector<std::string>{"add_", "reshape"}));
}

}  // namespace
TEST_F(CompileGraph, OptionsOfTracingAreRefusedByName) {
  MethodOptions options;
  options.argument_names = {"left", "right", "bias"};
  options.dynamic = Dynamic::kAlways;
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile_graph(parse(kSum), options); }),
              "graph 'sum': without effect on a graph: argument_names, dynamic");
}

}  // namespace reprise
