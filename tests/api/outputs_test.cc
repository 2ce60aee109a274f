#include "api/library_test_support.h"

namespace reprise {
namespace {

class Outputs : public LibraryTest {};

constexpr std::string_view kHeld = "a result of an earlier call is still held";

TEST_F(Outputs, AHeldResultIsOverwrittenAndWarnedOfOnce) {
  auto method = library_.compile(silu_method());
  const Tensor a = random({3, 8}, 1);
  const Tensor b = random({3, 8}, 2);
  const Tensor held = method(a);
  const std::vector<float> of_a = floats(held);
  Tensor now;
  const std::string log = log_of([&] {
    now = method(b);
    now = method(b);
  });
  EXPECT_EQ(count_of(log, kHeld), 1) << log;
  expect_text(log, "set clone_output");
  EXPECT_NE(floats(held), of_a);
  EXPECT_EQ(floats(held), floats(now)) << "both are the memory of the graph";
}

TEST_F(Outputs, DroppedResultsWarnOfNothing) {
  auto method = library_.compile(silu_method());
  const std::string log = log_of([&] {
    for (int call = 0; call < 3; ++call) floats(method(random({3, 8}, call)));
    Tensor kept = method(random({3, 8}));
    kept = Tensor();
    method(random({3, 8}));
  });
  EXPECT_EQ(log, "");
}

TEST_F(Outputs, AResultThatIsFedBackIsReadBeforeItIsOverwritten) {
  auto method = library_.compile([](Context& context, Tensor x) { return ops::add(context, x, x); });
  for (const bool moved : {false, true}) {
    const std::string log = log_of([&] {
      Tensor x = constant({2, 4}, 1);
      for (int call = 0; call < 4; ++call) x = moved ? method(std::move(x)) : method(x);
      EXPECT_EQ(floats(x), std::vector<float>(8, 16));
    });
    EXPECT_EQ(log, "") << (moved ? "moved" : "copied");
  }
  EXPECT_EQ(method.counters().replays, 8);
}

TEST_F(Outputs, WithoutCloneInputAResultThatIsFedBackStaysRight) {
  MethodOptions options;
  options.compile.clone_input = false;
  options.dynamic = Dynamic::kAlways;
  // Two intermediates: memory that is free behind the first operator is written by the last.
  const auto chain = [](Context& context, Tensor x) {
    const Tensor y = ops::silu(context, ops::add(context, x, x));
    return ops::add(context, ops::mul(context, y, y), x);
  };
  auto method = library_.compile(chain, options);
  options.mode = Mode::kEager;
  auto eager = library_.compile(chain, options);
  for (const int64_t rows : {2, 3, 4}) {
    Tensor x = random({6, 8}, 1);
    Tensor expected = random({6, 8}, 1);
    for (int call = 0; call < 4; ++call) {
      x = method(x.with_meta(TensorMeta(DType::kF32, {rows, 8})));
      expected = eager(expected.with_meta(TensorMeta(DType::kF32, {rows, 8})));
      ASSERT_EQ(floats(x), floats(expected)) << rows << " rows, call " << call;
      x = method(x);
      expected = eager(expected);
      ASSERT_EQ(floats(x), floats(expected)) << rows << " rows, call " << call;
    }
    // The first argument of a smaller key lies where that key has its intermediates.
    if (rows > 2) {
      x = method(x.with_meta(TensorMeta(DType::kF32, {rows - 1, 8}), 32));
      expected = eager(expected.with_meta(TensorMeta(DType::kF32, {rows - 1, 8}), 32));
      ASSERT_EQ(floats(x), floats(expected)) << rows;
    }
  }
}

TEST_F(Outputs, CloneOutputKeepsEveryResultAndItsWarningAway) {
  MethodOptions options;
  options.compile.clone_output = true;
  auto method = library_.compile(silu_method(), options);
  std::vector<Tensor> results;
  std::vector<std::vector<float>> expected;
  auto eager = library_.compile(silu_method(), [] {
    MethodOptions eager_options;
    eager_options.mode = Mode::kEager;
    return eager_options;
  }());
  const std::string log = log_of([&] {
    for (int call = 0; call < 4; ++call) {
      const Tensor x = random({3, 8}, call);
      results.push_back(method(x));
      expected.push_back(floats(eager(x)));
    }
  });
  EXPECT_EQ(log, "");
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(floats(results[i]), expected[i]);
}

TEST_F(Outputs, CloneOutputLeavesViewsOfInputsAlone) {
  MethodOptions options;
  options.compile.clone_output = true;
  auto method = library_.compile(
      [](Context& context, Tensor x, Tensor state) {
        ops::add_(context, state, x);
        return std::array<Tensor, 3>{x, ops::reshape(context, state, {8}), ops::silu(context, x)};
      },
      options);
  const Tensor x = constant({2, 4}, 1);
  const Tensor state = constant({2, 4}, 2);
  const std::array<Tensor, 3> results = method(x, state);
  EXPECT_EQ(results[0].data(), x.data());
  EXPECT_EQ(results[1].data(), state.data());
  EXPECT_EQ(floats(results[1]), std::vector<float>(8, 3));
  EXPECT_NE(results[2].data(), method(x, state)[2].data());
}

TEST_F(Outputs, WithoutReuseEachKeyKeepsItsResults) {
  for (const bool reuse : {false, true}) {
    MethodOptions options;
    options.dynamic = Dynamic::kAlways;
    options.compile.reuse_graph_pool_in_same_fx = reuse;
    auto method = library_.compile(silu_method(), options);
    const Tensor of_three = method(random({3, 8}, 1));
    const std::vector<float> expected = floats(of_three);
    const Tensor of_four = method(random({4, 8}, 2));
    EXPECT_EQ(floats(of_three) == expected, !reuse);
    EXPECT_EQ(of_three.data() == of_four.data(), reuse) << "keys overlay each other";
    method(random({3, 8}, 3));
    EXPECT_NE(floats(of_three), expected) << "the same key overwrites it";
  }
}

TEST_F(Outputs, ResultsOfAMethodThatIsGoneAreStillThere) {
  Tensor result;
  std::vector<float> expected;
  {
    auto method = library_.compile(silu_method());
    result = method(random({3, 8}));
    expected = floats(result);
  }
  EXPECT_EQ(floats(result), expected);
}

TEST_F(Outputs, QueuedWorkOutlivesWhatItWasCapturedIn) {
  MethodOptions options;
  options.compile.reuse_graph_pool_in_same_fx = false;
  options.dynamic = Dynamic::kAlways;
  for (const Mode mode : {Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    options.mode = mode;
    options.compile.force_recapture = mode == Mode::kFull;
    const Tensor state = constant({1, 8}, 0);
    const Tensor one = constant({1, 8}, 1);
    {
      auto method = library_.compile(
          [](Context& context, Tensor sum, Tensor y, Tensor x) {
            ops::copy_(context, sum, ops::add(context, ops::add(context, sum, y), y));
            return ops::silu(context, ops::silu(context, x));
          },
          options);
      for (int call = 0; call < 20; ++call) method(state, one, random({2 + call % 3, 8}));
    }
    EXPECT_EQ(floats(state), std::vector<float>(8, 40)) << name_of(mode);
  }
}

TEST_F(Outputs, MethodsShareAPool) {
  MethodOptions options;
  options.pool = std::make_shared<GraphPool>(library_.device());
  auto first = library_.compile(silu_method(), options);
  auto second = library_.compile([](Context& context, Tensor x) { return ops::add(context, x, x); }, options);
  const Tensor x = random({16, 64});
  const Tensor of_first = first(x);
  const std::vector<float> expected = floats(of_first);
  const size_t bytes = options.pool->bytes();
  EXPECT_EQ(floats(second(x))[0], 2 * floats(x)[0]);
  EXPECT_EQ(options.pool->bytes(), bytes) << "they overlay each other";
  EXPECT_NE(floats(of_first), expected) << "the result lasts until any of them runs";
  EXPECT_EQ(floats(first(x)), expected);
  // What one returns the other takes: it is copied before it is overwritten.
  const std::vector<float> chained = floats(second(first(x)));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(chained[i], 2 * expected[i]);
}

TEST_F(Outputs, OwnMemoryInASharedPoolIsRefusedAtTheFirstCallToo) {
  MethodOptions options = named("second", {"x", "weight"});
  options.pool = std::make_shared<GraphPool>(library_.device());
  auto first = library_.compile(
      silu_method(), options.pool == nullptr ? MethodOptions() : [&] {
        MethodOptions other;
        other.pool = options.pool;
        return other;
      }());
  auto second = library_.compile(
      [](Context& context, Tensor x, Parameter weight) {
        return ops::add(context, ops::rms_norm(context, ops::silu(context, x), weight.tensor, 1e-6), x);
      },
      options);
  const Tensor weight = first(random({64}));
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { second(random({4, 64}), weight); }),
              "argument 'weight' is a result that this call would overwrite");
  second(random({4, 64}), constant({64}, 1));
}

TEST_F(Outputs, ViewsOfInputsAreTheCallersMemory) {
  auto method = library_.compile([](Context& context, Tensor x) {
    return std::array<Tensor, 3>{x, ops::slice(context, x, 1, 2, 6), ops::silu(context, x)};
  });
  for (const int seed : {1, 2, 3}) {
    const Tensor x = random({3, 8}, seed);
    const auto [same, part, y] = method(x);
    EXPECT_EQ(same.data(), x.data());
    EXPECT_EQ(part.data(), x.data_as<float>() + 2);
    EXPECT_EQ(part.size(1), 4);
    EXPECT_EQ(part.stride(0), 8);
    EXPECT_NE(y.data(), x.data());
  }
  EXPECT_EQ(method.counters().captures, 1);
}

TEST_F(Outputs, AMethodWithoutOperatorsGivesItsArgumentsBack) {
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    auto method = library_.compile([](Context&, Tensor x, Tensor y) { return std::array<Tensor, 2>{y, x}; }, options);
    const Tensor x = random({2, 4});
    const Tensor y = random({3}, 1);
    for (int call = 0; call < 2; ++call) {
      const auto [first, second] = method(x, y);
      EXPECT_EQ(first.data(), y.data());
      EXPECT_EQ(second.data(), x.data());
    }
  }
}

TEST_F(Outputs, AMethodMayReturnNothing) {
  auto method = library_.compile([](Context& context, Tensor x) {
    double_in_place(context, x);
    return std::vector<Tensor>{};
  });
  const Tensor x = constant({2, 4}, 1);
  for (int call = 0; call < 3; ++call) EXPECT_TRUE(method(x).empty());
  EXPECT_EQ(floats(x), std::vector<float>(8, 8));
}

TEST_F(Outputs, TheSameResultTwice) {
  auto method = library_.compile([](Context& context, Tensor x) {
    const Tensor y = ops::silu(context, x);
    return std::array<Tensor, 3>{y, y, ops::reshape(context, y, {24})};
  });
  const Tensor x = random({3, 8});
  const auto [a, b, c] = method(x);
  EXPECT_EQ(a.data(), b.data());
  EXPECT_EQ(floats(a), floats(b));
  EXPECT_EQ(floats(a), floats(c));
}

TEST_F(Outputs, OverlappingArgumentsAreRefusedOnlyWhereOneIsWritten) {
  auto method = library_.compile(
      [](Context& context, Tensor state, Tensor y) {
        ops::add_(context, state, y);
        return ops::silu(context, y);
      },
      named("m", {"state", "y"}));
  const Tensor memory = constant({4, 4}, 1);
  const Tensor top = memory.with_meta(TensorMeta(DType::kF32, {2, 4}));
  const Tensor middle = memory.with_meta(TensorMeta(DType::kF32, {2, 4}), 16);
  const Tensor bottom = memory.with_meta(TensorMeta(DType::kF32, {2, 4}), 32);
  const std::string error = error_of(ErrorCode::kInvalidArgument, [&] { method(top, middle); });
  expect_text(error, "arguments 'state' and 'y' share memory, and the method writes 'state'");
  error_of(ErrorCode::kInvalidArgument, [&] { method(top, top); });
  method(top, bottom);
  EXPECT_EQ(floats(memory), (std::vector<float>{2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1}));
  auto sum = library_.compile([](Context& context, Tensor x, Tensor y) { return ops::add(context, x, y); });
  EXPECT_EQ(floats(sum(top, top))[0], 4);
}

TEST_F(Outputs, AWrittenArgumentMustNotBeAConstantOfTheMethod) {
  const Tensor weight = constant({2, 4}, 1);
  auto method = library_.compile(
      [&](Context& context, Tensor state) {
        ops::add_(context, state, weight);
        return ops::add(context, state, weight);
      },
      named("m", {"state"}));
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(weight); }), "shares memory with");
  EXPECT_EQ(floats(method(constant({2, 4}, 3))), std::vector<float>(8, 5));
}

TEST_F(Outputs, AnArgumentMustNotBeMemoryThatTheMethodWritesItself) {
  const Tensor cache = constant({2, 4}, 1);
  const auto doubled = [&](Context& context, Tensor x) {
    double_in_place(context, cache);
    return ops::add(context, x, x);
  };
  for (const bool clone_input : {true, false}) {
    MethodOptions options = named("m", {"x"});
    options.compile.clone_input = clone_input;
    auto method = library_.compile(doubled, options);
    const std::string error = error_of(ErrorCode::kInvalidArgument, [&] { method(cache); });
    expect_text(error, "argument 'x' shares memory with 'constant_0', which the method writes");
    EXPECT_EQ(floats(method(constant({2, 4}, 3)))[0], 6);
  }
  EXPECT_EQ(floats(cache), std::vector<float>(8, 4)) << "written by the two calls that were right";
}

TEST_F(Outputs, AMutatedArgumentMustNotBeAResultThatIsOverwritten) {
  auto method = library_.compile(
      [](Context& context, Tensor state) {
        double_in_place(context, state);
        return ops::silu(context, state);
      },
      named("m", {"state"}));
  const Tensor result = method(constant({2, 4}, 1));
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(result); }),
              "argument 'state' is a result that this call would overwrite");
  EXPECT_EQ(method(constant({2, 4}, 1)).data(), result.data());
}

TEST_F(Outputs, EmptyTensorsPassThrough) {
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    options.splitting_ops = {"silu"};
    auto method = library_.compile(
        [](Context& context, Tensor x, Parameter weight) {
          const Tensor y = ops::linear(context, ops::silu(context, x), {weight.tensor, {}});
          return std::array<Tensor, 2>{y, ops::reshape(context, x, {x.shape()[0], 2, 4})};
        },
        options);
    const Tensor weight = pack(random({16, 8}));
    for (int call = 0; call < 2; ++call) {
      const auto [y, view] = method(library_.from_floats({0, 8}, {}), weight);
      EXPECT_EQ(y.shape(), Shape({0, 16})) << name_of(mode);
      EXPECT_EQ(view.shape(), Shape({0, 2, 4}));
      EXPECT_TRUE(floats(y).empty());
      EXPECT_EQ(floats(method(random({3, 8}), weight)[0]).size(), 48u);
    }
  }
}

TEST_F(Outputs, StridedInputsAreReadAsTheyLie) {
  const Tensor wide = random({6, 16});
  TensorMeta part(DType::kF32, {3, 4});
  part.strides[0] = 32;  // every second row, columns 4 to 7
  const std::vector<float> all = floats(wide);
  for (const bool clone_input : {true, false}) {
    MethodOptions options;
    options.compile.clone_input = clone_input;
    auto method = library_.compile([](Context& context, Tensor x) { return ops::add(context, x, x); }, options);
    for (const size_t offset : {16u, 32u}) {
      const std::vector<float> twice = floats(method(wide.with_meta(part, offset)));
      for (size_t i = 0; i < twice.size(); ++i) EXPECT_EQ(twice[i], 2 * all[i / 4 * 32 + offset / 4 + i % 4]);
    }
    EXPECT_EQ(method.variants(), 1);
  }
}

TEST_F(Outputs, AStridedArgumentIsWrittenWhereItLies) {
  auto method = library_.compile([](Context& context, Tensor state, Tensor y) {
    ops::copy_(context, state, y);
    return ops::silu(context, y);
  });
  const Tensor wide = constant({2, 4}, 0);
  TensorMeta part(DType::kF32, {2, 2});
  part.strides[0] = 4;
  method(wide.with_meta(part, 4), constant({2, 2}, 1));
  EXPECT_EQ(floats(wide), (std::vector<float>{0, 1, 1, 0, 0, 1, 1, 0}));
}

}  // namespace
}  // namespace reprise
