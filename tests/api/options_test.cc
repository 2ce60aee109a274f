#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "api/library_test_support.h"
#include "compile/option_names.h"
#include "compile/pass_manager.h"

namespace reprise {
namespace {

using Names = std::vector<std::string>;

class Options : public LibraryTest {};

/// Something for every switch.
auto method_with_everything() {
  return [](Context& context, Tensor x, Tensor state, Parameter weight) {
    x = ops::reshape(context, ops::cast(context, x, DType::kF32), {x.shape()[0], 8});
    ops::silu(context, x);  // nobody wants it
    const Tensor sum = ops::add(context, x, x);
    const Tensor y = ops::rms_norm(context, sum, weight.tensor, 1e-6);
    ops::copy_(context, state, ops::add(context, state, y));
    const std::array parts = {ops::silu(context, ops::mul(context, y, y)), ops::reciprocal(context, sum)};
    return ops::cat(context, parts, 0);
  };
}

class EachSwitch : public ::testing::TestWithParam<std::string> {};

TEST_P(EachSwitch, LeavesTheBitsAloneAndTurnsOffItsOwnPassesOnly) {
  Library library = Library::open("cpu", 2);
  const Tensor x = random_tensor(library, {3, 8}, 1);
  const Tensor weight = random_tensor(library, {8}, 2);
  const auto run = [&](const MethodOptions& options, std::string* explanation) {
    auto method = library.compile(method_with_everything(), options);
    const Tensor state = random_tensor(library, {3, 8}, 3);
    std::vector<float> contents = library.to_floats(method(x, state, weight));
    const std::vector<float> after = library.to_floats(state);
    contents.insert(contents.end(), after.begin(), after.end());
    *explanation = method.explain();
    return contents;
  };
  MethodOptions options;
  options.mode = Mode::kAotEager;
  std::string plain, all, switched;
  const std::vector<float> expected = run(options, &plain);
  options.mode = Mode::kFull;
  EXPECT_EQ(run(options, &all), expected);
  compile::set_option(options.compile, GetParam(), false);
  EXPECT_EQ(run(options, &switched), expected);
  const std::map<std::string, Names> passes = {{"remove_noop_ops", {"remove_noop_ops"}},
                                               {"pattern_fusion_pass", {"add_rms_norm", "merge_linears", "swiglu"}},
                                               {"remove_cat_ops", {"remove_cat_ops"}},
                                               {"inplace_pass", {"in_place"}},
                                               {"input_inplace_pass", {"input_in_place", "recover_view_in_place"}}};
  for (const auto& [name, own] : passes) {
    for (const std::string& pass : own) {
      // In the table of what passes did, or among those that had nothing to do.
      const std::regex named("[\n ]" + pass + "[ ,\n]");
      EXPECT_TRUE(std::regex_search(all, named)) << pass << all;
      EXPECT_EQ(!std::regex_search(switched, named), name == GetParam()) << pass << switched;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, EachSwitch,
                         ::testing::Values("remove_noop_ops", "pattern_fusion_pass", "remove_cat_ops", "inplace_pass",
                                           "input_inplace_pass"),
                         [](const auto& tested) { return tested.param; });

TEST_F(Options, NoOperationsAndDeadCodeAreCounted) {
  const auto ops = [&](bool enabled) {
    MethodOptions options;
    options.compile.passes.remove_noop_ops = enabled;
    auto method = library_.compile(
        [](Context& context, Tensor x) {
          const Tensor y = ops::add(context, x, x);
          ops::mul(context, y, y);
          const Tensor whole = ops::slice(context, ops::reshape(context, y, {3, 8}), 1, 0, 8);
          return ops::silu(context, ops::cast(context, ops::slice(context, whole, 1, 0, 7), DType::kF32));
        },
        options);
    method(random({3, 8}));
    return op_names(method);
  };
  EXPECT_EQ(ops(true), (Names{"add", "slice", "cast", "silu_"})) << "the cast makes rows without gaps";
  EXPECT_EQ(ops(false), (Names{"add", "reshape", "slice", "slice", "cast", "silu_"}));
}

TEST_F(Options, OnesThatContradictEachOtherAreRefused) {
  const auto refused = [&](ErrorCode code, auto change) {
    MethodOptions options = named("m");
    change(options);
    return error_of(code, [&] { library_.compile(silu_method(), options)(random({2, 4})); });
  };
  expect_text(refused(ErrorCode::kInvalidArgument, [](auto& o) { o.recompile_limit = 0; }), "recompile_limit is 0");
  expect_text(refused(ErrorCode::kInvalidArgument, [](auto& o) { o.compile.capture_limit = 0; }), "capture_limit is 0");
  expect_text(refused(ErrorCode::kInvalidArgument,
                      [](auto& o) {
                        o.compile.force_eager = true;
                        o.mode = Mode::kPiecewise;
                      }),
              "force_eager contradicts mode piecewise");
  expect_text(refused(ErrorCode::kInvalidArgument, [](auto& o) { o.argument_names = {"x", "y"}; }),
              "2 argument names for 1 arguments");
  expect_text(refused(ErrorCode::kNotFound,
                      [](auto& o) {
                        o.mode = Mode::kPiecewise;
                        o.splitting_ops = {"paged_atention"};
                      }),
              "paged_attention");
  expect_text(refused(ErrorCode::kInvalidArgument, [](auto& o) { o.compile.passes.disabled_passes = {"in_plce"}; }),
              "did you mean 'in_place'");
  expect_text(refused(ErrorCode::kInvalidArgument, [](auto& o) { o.name = "a method"; }), "a method");
  library_.compile(silu_method())(random({2, 4}));
}

TEST_F(Options, TypesAreStrictAndUnknownNamesAnswered) {
  MethodOptions options;
  compile::set_option(options.compile, "capture_limit", int64_t{1});
  compile::set_option(options.compile, "capture_error_mode", std::string("thread_local"));
  EXPECT_EQ(options.compile.capture_error_mode, device::CaptureMode::kThreadLocal);
  error_of(ErrorCode::kInvalidArgument, [&] { compile::set_option(options.compile, "clone_input", int64_t{0}); });
  error_of(ErrorCode::kInvalidArgument, [&] { compile::set_option(options.compile, "capture_limit", true); });
  expect_text(
      error_of(ErrorCode::kInvalidArgument, [&] { compile::set_option(options.compile, "clone_inputs", true); }),
      "did you mean 'clone_input'");
  expect_text(
      error_of(ErrorCode::kUnsupported, [&] { compile::set_option(options.compile, "static_kernel_compile", true); }),
      "static_kernel_compile is not built yet");
  options.compile.passes = {};
  auto method = library_.compile(silu_method(), options);
  for (const int64_t columns : {4, 8}) method(random({3, columns}));
  EXPECT_EQ(method.counters().captures, 2) << "of two traces, each with a limit of its own";
}

TEST_F(Options, CaptureErrorModesAllowACaptureEach) {
  for (const auto mode :
       {device::CaptureMode::kGlobal, device::CaptureMode::kThreadLocal, device::CaptureMode::kRelaxed}) {
    MethodOptions options;
    options.compile.capture_error_mode = mode;
    auto method = library_.compile(silu_method(), options);
    method(random({2, 4}));
    EXPECT_EQ(method.counters().replays, 1);
  }
}

TEST_F(Options, ForceEagerRunsTheOptimisedGraphNodeByNode) {
  MethodOptions options;
  options.compile.force_eager = true;
  auto method = library_.compile(
      [](Context& context, Tensor x, Parameter weight) {
        return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
      },
      options);
  for (int call = 0; call < 3; ++call) method(random({3, 8}), constant({8}, 1));
  EXPECT_EQ(method.counters().captures, 0);
  EXPECT_EQ(method.counters().node_runs, 3);
  EXPECT_EQ(op_names(method), Names{"add_rms_norm"});
}

TEST_F(Options, CustomPassesRunFirstAndBehindTheFusions) {
  Names order;
  MethodOptions options;
  const auto note = [&order](std::string name) {
    return compile::Pass{name, [&order, name](graph::Graph& graph) {
                           order.push_back(fmt::format("{} {}", name, graph.order().size()));
                           return compile::PassResult{};
                         }};
  };
  options.compile.passes.pre_passes = {note("pre")};
  options.compile.passes.post_passes = {note("post")};
  auto method = library_.compile(
      [](Context& context, Tensor x, Parameter weight) {
        return ops::rms_norm(context, ops::add(context, ops::reshape(context, x, {3, 8}), x), weight.tensor, 1e-6);
      },
      options);
  method(random({3, 8}), constant({8}, 1));
  EXPECT_EQ(order, (Names{"pre 3", "post 1"}));
  expect_text(method.explain(), "nothing to do: pre, ");
}

TEST_F(Options, TheDebugDirectoryHasTheFilesInTheOrderOfThePasses) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("reprise_options_test_{}", ::getpid());
  std::filesystem::remove_all(root);
  MethodOptions options = named("norm", {"x", "weight"});
  options.debug_directory = root;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(
      [](Context& context, Tensor x, Parameter weight) {
        return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
      },
      options);
  const Tensor weight = constant({8}, 1);
  for (const int64_t rows : {3, 4, 1}) method(random({rows, 8}), weight);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(root / "norm")) files.push_back(file.path().filename());
  std::sort(files.begin(), files.end());
  std::vector<std::string> expected = {"000_traced.txt"};
  graph::Graph empty("empty");
  for (const compile::PassReport& report : compile::PassManager::standard(library_.registry()).run(empty)) {
    expected.push_back(fmt::format("{:03}_after_{}.txt", expected.size(), report.pass));
  }
  for (const char* name : {"guards.txt", "keys.txt", "passes.log", "program_key0.json", "program_key0.txt",
                           "program_key1.json", "program_key1.txt"}) {
    expected.emplace_back(name);
  }
  EXPECT_EQ(files, expected);
  EXPECT_TRUE(std::filesystem::exists(root / "norm.1" / "000_traced.txt")) << "the trace for one row";
  std::ifstream keys(root / "norm" / "keys.txt");
  const std::string text((std::istreambuf_iterator<char>(keys)), {});
  expect_text(text, "input x: copied");
  expect_text(text, "captured: x.size(0) = 4, address of weight = 0x");
  std::filesystem::remove_all(root);
}

TEST_F(Options, TheExplanationHasPassesRefusalsGuardsAndKeys) {
  auto method = library_.compile(
      [](Context& context, Tensor x, Parameter weight) {
        const Tensor sum = ops::add(context, x, x);
        return std::array<Tensor, 2>{ops::rms_norm(context, sum, weight.tensor, 1e-6), ops::silu(context, x)};
      },
      named("m", {"x", "weight"}));
  method(random({3, 8}), constant({8}, 1));
  const std::string text = method.explain();
  expect_text(text, "method m: mode full, 1 traces");
  expect_text(text, "trace 0: 2 nodes, 1 captured graphs");
  expect_text(text, "add_rms_norm                        3      2        1");
  expect_text(text, "in_place left alone: options_test.cc:");
  expect_text(text, "x.size(0) == 3");
  expect_text(text, "input weight: parameter: its address is part of the key");
  expect_text(text, "captures: 1");
}

TEST_F(Options, NamesThatAGraphCannotHoldAreRefusedAtOnce) {
  for (const std::string bad : {"", "a b", "../x", "x\n"}) {
    if (!bad.empty()) {
      expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile(silu_method(), named(bad)); }),
                  "cannot be the name of a method");
    }
    expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile(silu_method(), named("m", {bad})); }),
                "cannot be the name of an argument");
  }
}

TEST_F(Options, APoolOfAnotherLibraryIsRefused) {
  const Library other = Library::open("cpu", 1);
  MethodOptions options = named("m");
  options.pool = std::make_shared<GraphPool>(other.device());
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library_.compile(silu_method(), options); }),
              "another library's device");
}

TEST_F(Options, PiecesAreSplitAtAnOperatorThatAPassMadeRunInPlace) {
  MethodOptions options = named("m");
  options.mode = Mode::kPiecewise;
  options.splitting_ops = {"add"};
  auto method = library_.compile(
      [](Context& context, Tensor x) { return ops::mul(context, ops::add(context, ops::silu(context, x), x), x); },
      options);
  method(random({2, 4}));
  EXPECT_EQ(op_names(method), (std::vector<std::string>{"silu", "add_", "mul_"}));
  expect_text(method.explain(), "2 pieces, 1 operators run eagerly between them");
}

TEST_F(Options, AFullDiskEndsTheDebugOutputAndNotTheMethod) {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "reprise_options_test_dump";
  std::filesystem::remove_all(root);
  MethodOptions options = named("m");
  options.debug_directory = root;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(silu_method(), options);
  method(random({2, 4}));
  EXPECT_TRUE(std::filesystem::exists(root / "m" / "keys.txt"));
  std::filesystem::remove_all(root);
  const std::string log = log_of([&] {
    for (const int64_t rows : {3, 4, 5}) method(random({rows, 4}));
  });
  EXPECT_EQ(count_of(log, "nothing more is written about this method"), 1) << log;
  EXPECT_EQ(method.counters().replays, 4);
  EXPECT_FALSE(std::filesystem::exists("program_key1.json")) << "the working directory is none of its business";
}

}  // namespace
}  // namespace reprise
