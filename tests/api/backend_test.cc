#include "reprise/backend.h"

#include "api/library_test_support.h"
#include "compile/executable.h"
#include "compile/pass_manager.h"

namespace reprise {
namespace {

/// Runs the graph node by node behind the standard passes, in memory of each call's own.
class NodeByNode final : public BackendProgram {
 public:
  NodeByNode(graph::Graph graph, const BackendContext& context) : graph_(std::move(graph)), device_(context.device) {
    compile::PassManager::standard(context.registry, context.options.passes).run(graph_);
  }

  std::vector<Tensor> run(const BackendCall& call) override {
    const compile::Executable executable(graph_.clone(), device_.name(), {call.symbols.begin(), call.symbols.end()});
    const std::shared_ptr<Storage> arena = device_.allocate(std::max<size_t>(executable.arena_bytes(), 64));
    const auto bound = executable.bind(call.symbols, arena, call.inputs);
    bound->run(call.stream, call.lists);
    return {bound->outputs().begin(), bound->outputs().end()};
  }

 private:
  graph::Graph graph_;
  device::Device& device_;
};

/// A program that is a function.
class FunctionProgram final : public BackendProgram {
 public:
  explicit FunctionProgram(std::function<std::vector<Tensor>(const BackendCall&)> function)
      : function_(std::move(function)) {}
  std::vector<Tensor> run(const BackendCall& call) override { return function_(call); }

 private:
  std::function<std::vector<Tensor>(const BackendCall&)> function_;
};

class Backends : public LibraryTest {
 protected:
  void add(const std::string& name, std::function<std::vector<Tensor>(const BackendCall&)> function) {
    library_.register_backend(
        name, [function](graph::Graph, const BackendContext&) { return std::make_unique<FunctionProgram>(function); });
  }
  static MethodOptions with(std::string backend) {
    MethodOptions options = named("m", {"x"});
    options.backend = std::move(backend);
    return options;
  }
};

auto norm_of_sum() {
  return [](Context& context, Tensor x, Parameter weight) {
    return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
  };
}

TEST_F(Backends, RunTracesInPlaceOfTheMode) {
  int64_t nodes = 0;
  library_.register_backend("node_by_node", [&nodes](graph::Graph graph, const BackendContext& context) {
    nodes = static_cast<int64_t>(graph.order().size());
    return std::make_unique<NodeByNode>(std::move(graph), context);
  });
  for (const Mode mode : {Mode::kEager, Mode::kFull}) {
    MethodOptions options;
    options.dynamic = Dynamic::kAlways;
    options.backend = "node_by_node";
    options.mode = mode;
    auto method = library_.compile(norm_of_sum(), options);
    auto reference = library_.compile(norm_of_sum());
    const Tensor weight = random({8}, 9);
    for (const int64_t rows : {4, 6, 1, 4}) {
      const Tensor x = random({rows, 8}, static_cast<int>(rows));
      EXPECT_EQ(floats(method(x, weight)), floats(reference(x, weight)));
    }
    EXPECT_EQ(nodes, 2) << "no pass has run";
    EXPECT_EQ(method.variants(), 2);
    EXPECT_EQ(method.counters().captures, 0);
    EXPECT_EQ(method.counters().node_runs, 4);
  }
}

TEST_F(Backends, AreGivenSymbolsInputsAndLists) {
  std::vector<int64_t> symbols;
  std::vector<int32_t> list;
  add("spy", [&](const BackendCall& call) {
    symbols.assign(call.symbols.begin(), call.symbols.end());
    list.assign(call.lists[0].values.begin(), call.lists[0].values.end());
    return std::vector<Tensor>{call.inputs[0]};
  });
  MethodOptions options = with("spy");
  options.dynamic = Dynamic::kAlways;
  options.argument_names = {"lengths", "x"};
  auto method = library_.compile([](Context& context, HostList, Tensor x) { return ops::silu(context, x); }, options);
  const Tensor x = random({5, 8});
  EXPECT_EQ(method(std::vector<int32_t>{7, 8, 9}, x).data(), x.data());
  EXPECT_EQ(symbols, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(list, (std::vector<int32_t>{7, 8, 9}));
}

TEST_F(Backends, NamesAreChecked) {
  const auto refused = [&](const std::string& name) {
    return error_of(ErrorCode::kInvalidArgument,
                    [&] { add(name, [](const BackendCall&) { return std::vector<Tensor>(); }); });
  };
  expect_text(refused(""), "needs a name");
  expect_text(refused("full"), "a backend cannot be called 'full', which is a mode");
  add("mine", [](const BackendCall&) { return std::vector<Tensor>(); });
  expect_text(refused("mine"), "there is a backend 'mine' already");
  error_of(ErrorCode::kInvalidArgument, [&] { library_.register_backend("none", nullptr); });
  expect_text(error_of(ErrorCode::kNotFound, [&] { library_.compile(silu_method(), with("mime")); }),
              "did you mean 'mine'?");
  expect_text(error_of(ErrorCode::kNotFound, [&] { Library::open("cpu", 1).compile(silu_method(), with("mine")); }),
              "register it first");
}

TEST_F(Backends, FaultyOnesAreErrorsAndTheLibraryWorksOn) {
  add("short", [](const BackendCall&) { return std::vector<Tensor>(); });
  bool fail = true;
  add("moody", [&](const BackendCall& call) {
    if (fail) throw Error(ErrorCode::kUnsupported, "not today");
    return std::vector<Tensor>{call.inputs[0]};
  });
  library_.register_backend("empty", [](graph::Graph, const BackendContext&) { return nullptr; });
  library_.register_backend("picky", [](graph::Graph, const BackendContext&) -> std::unique_ptr<BackendProgram> {
    throw Error(ErrorCode::kUnsupported, "no such graph");
  });
  const Tensor x = random({2, 8});
  auto short_results = library_.compile(silu_method(), with("short"));
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { short_results(x); }),
              "backend 'short' gave 0 results, the graph has 1");
  auto empty = library_.compile(silu_method(), with("empty"));
  expect_text(error_of(ErrorCode::kFailedPrecondition, [&] { empty(x); }), "backend 'empty' made no program");
  auto picky = library_.compile(silu_method(), with("picky"));
  for (int call = 0; call < 2; ++call) {
    expect_text(error_of(ErrorCode::kUnsupported, [&] { picky(x); }), "no such graph");
  }
  EXPECT_EQ(picky.variants(), 0);
  auto moody = library_.compile(silu_method(), with("moody"));
  error_of(ErrorCode::kUnsupported, [&] { moody(x); });
  fail = false;
  EXPECT_EQ(moody(x).data(), x.data());
  library_.compile(silu_method())(x);
}

}  // namespace
}  // namespace reprise
