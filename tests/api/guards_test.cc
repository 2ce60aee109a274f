#include <cmath>
#include <limits>

#include "api/library_test_support.h"

namespace reprise {
namespace {

class Guards : public LibraryTest {
 protected:
  /// What a call's miss of the last trace's guards is logged as.
  template <typename Call>
  std::string miss(CompiledMethod& method, Call call) {
    const int64_t before = method.variants();
    const std::string log = log_of(call);
    EXPECT_EQ(method.variants(), before + 1) << log;
    return log;
  }
};

int64_t recompiles(const CompiledMethod& method, std::string_view reason) {
  const auto& counts = method.counters().recompiles;
  const auto place = counts.find(reason);
  return place == counts.end() ? 0 : place->second;
}

auto sum_of_two() {
  return [](Context& context, Tensor x, Tensor y) { return ops::add(context, x, y); };
}

TEST_F(Guards, AMissIsLoggedWithTheGuardItsLineAndWhatWasFound) {
  MethodOptions options = named("decode", {"x", "batch"});
  const auto line = std::source_location::current().line() + 1;
  auto method = library_.compile([](Context& context, Tensor x, Dim) { return ops::silu(context, x); }, options);
  method(random({4, 8}), 4);
  const std::string log = miss(method, [&] { method(random({4, 8}), 6); });
  expect_text(log, fmt::format("recompiling decode: guard L{} (batch == 4) failed: batch = 6", line));
  EXPECT_EQ(recompiles(method, "value"), 1);
}

TEST_F(Guards, AMissIsExplainedByTheTraceThatIsNearest) {
  auto method = library_.compile(silu_method(), named("m", {"x"}));
  for (const int64_t rows : {4, 6, 1}) method(random({rows, 8}));
  expect_text(miss(method, [&] { method(random({6, 9})); }), "(x.size(1) == 8) failed: x.size(1) = 9");
  method(random({7, 9}));
  EXPECT_EQ(method.variants(), 4);
}

TEST_F(Guards, AnOptionalTensorThatIsGivenOrNot) {
  auto method =
      library_.compile([](Context& context, Tensor x,
                          Tensor bias) { return bias.defined() ? ops::add(context, x, bias) : ops::silu(context, x); },
                       named("optional", {"x", "bias"}));
  const Tensor x = random({2, 8});
  const std::vector<float> without = floats(method(x, Tensor()));
  expect_text(miss(method, [&] { method(x, x); }), "(not bias is given) failed: bias is given");
  EXPECT_NE(floats(method(x, x)), without);
  EXPECT_EQ(floats(method(x, Tensor())), without);
  EXPECT_EQ(recompiles(method, "given"), 1);
}

TEST_F(Guards, RankDTypeAndStride) {
  auto method = library_.compile(silu_method(), named("m", {"x"}));
  const Tensor x = random({2, 3, 4});
  const std::vector<float> expected = floats(method(x));
  const Tensor flat = x.with_meta(TensorMeta(DType::kF32, {6, 4}));
  expect_text(miss(method, [&] { EXPECT_EQ(floats(method(flat)), expected); }), "(x.rank == 3) failed: x.rank = 2");
  const Tensor half = library_.empty(TensorMeta(DType::kBF16, {6, 4}));
  library_.device().fill(half.data(), 0, 48);
  expect_text(miss(method, [&] { method(half); }), "(x.dtype == float32) failed: x.dtype = bfloat16");

  // Every second row of a larger tensor.
  TensorMeta strided(DType::kBF16, {3, 4});
  strided.strides[0] = 8;
  method(library_.empty(TensorMeta(DType::kBF16, {6, 4})));
  const std::string log = miss(method, [&] { method(half.with_meta(strided)); });
  expect_text(log, "recompiling m: guard");
  EXPECT_EQ(recompiles(method, "rank"), 1);
  EXPECT_EQ(recompiles(method, "dtype"), 1);
  EXPECT_EQ(recompiles(method, "stride") + recompiles(method, "size"), 1);
}

TEST_F(Guards, AStrideAlone) {
  auto method = library_.compile(silu_method(), named("m", {"x"}));
  const Tensor wide = random({4, 16});
  TensorMeta left(DType::kF32, {4, 8});
  left.strides[0] = 16;
  method(random({4, 8}));
  expect_text(miss(method, [&] { method(wide.with_meta(left)); }), "(x.stride(0) == 8) failed: x.stride(0) = 16");
  EXPECT_EQ(recompiles(method, "stride"), 1);
}

TEST_F(Guards, TheFormat) {
  auto method = library_.compile(
      [](Context& context, Tensor x, Tensor weight) {
        return weight.format().is_plain() ? ops::silu(context, x) : ops::linear(context, x, {weight, {}});
      },
      named("m", {"x", "weight"}));
  const Tensor x = random({3, 32});
  const Tensor weight = random({16, 32}, 1);
  const Tensor packed = pack(weight);
  method(x, weight);
  expect_text(miss(method, [&] { EXPECT_EQ(method(x, packed).size(1), 16); }),
              "(weight.format == nd) failed: weight.format = " + std::string(packed.format().name()));
  EXPECT_EQ(method(x, weight).size(1), 32);
  EXPECT_EQ(method(x, packed).size(1), 16);
  EXPECT_EQ(recompiles(method, "format"), 1);
}

TEST_F(Guards, AnInnerSizeIsNeverSymbolic) {
  auto method = library_.compile(silu_method(), named("m", {"x"}));
  for (const int64_t columns : {8, 9, 10}) method(random({4, columns}));
  EXPECT_EQ(method.variants(), 3);
  EXPECT_EQ(recompiles(method, "size"), 2);
  expect_text(method.guards_text(2), "x.size(1) == 10");
}

TEST_F(Guards, TheLengthOfAHostList) {
  auto method = library_.compile([](Context& context, Tensor x, HostList) { return ops::silu(context, x); },
                                 named("m", {"x", "lengths"}));
  const Tensor x = random({8, 8});
  const std::vector<int32_t> lengths = {1, 2, 3, 4, 5};
  method(x, std::span(lengths).first(3));
  expect_text(miss(method, [&] { method(x, std::span(lengths).first(4)); }),
              "(lengths.length == 3) failed: lengths.length = 4");
  method(x, lengths);
  EXPECT_EQ(method.variants(), 2) << "the length has become symbolic";
  EXPECT_EQ(recompiles(method, "length"), 1);
}

TEST_F(Guards, ValuesOfHostScalars) {
  auto method = library_.compile(
      [](Context& context, Tensor x, int64_t times, bool gated, std::string kind) {
        for (int64_t i = 0; i < times; ++i) x = gated ? ops::silu(context, x) : ops::add(context, x, x);
        return kind == "twice" ? ops::add(context, x, x) : ops::copy(context, x);
      },
      named("m", {"x", "times", "gated", "kind"}));
  const Tensor x = constant({2, 4}, 1);
  EXPECT_EQ(floats(method(x, 1, false, "once"))[0], 2);
  expect_text(miss(method, [&] { EXPECT_EQ(floats(method(x, 3, false, "once"))[0], 8); }),
              "(times == 1) failed: times = 3");
  expect_text(miss(method, [&] { method(x, 3, true, "once"); }), "(gated == false) failed: gated = true");
  expect_text(miss(method, [&] { method(x, 3, true, "twice"); }), "(kind == once) failed: kind = twice");
  EXPECT_EQ(floats(method(x, 1, false, "once"))[0], 2) << "the first trace is still there";
  EXPECT_EQ(method.variants(), 4);
  EXPECT_EQ(recompiles(method, "value"), 3);
}

TEST_F(Guards, FloatsAreComparedByTheirBits) {
  const auto scaled = [](Context& context, Tensor x, double epsilon) {
    const bool negative = std::signbit(epsilon);
    return negative ? ops::add(context, x, x) : ops::silu(context, x);
  };
  auto method = library_.compile(scaled, named("m", {"x", "epsilon"}));
  const Tensor x = random({2, 4});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  method(x, nan);
  method(x, nan);
  EXPECT_EQ(method.variants(), 1) << "NaN is what it was";
  const std::vector<float> positive = floats(method(x, 0.0));
  EXPECT_EQ(method.variants(), 2);
  EXPECT_NE(floats(method(x, -0.0)), positive) << "-0.0 is not 0.0";
  EXPECT_EQ(method.variants(), 3);
  EXPECT_EQ(floats(method(x, 0.0)), positive);
  EXPECT_EQ(method.variants(), 3);
}

TEST_F(Guards, SkippedGuardsTellFloatsApartByTheirBitsToo) {
  auto method =
      library_.compile([](Context& context, Tensor x,
                          double sign) { return std::signbit(sign) ? ops::add(context, x, x) : ops::silu(context, x); },
                       named("m", {"x", "sign"}));
  const Tensor x = random({2, 4});
  const std::vector<float> positive = floats(method(x, 0.0));
  const std::vector<float> negative = floats(method(x, -0.0));
  const Scope scope = library_.set_stance(Stance::kSkipGuardEvalUnsafe);
  EXPECT_EQ(floats(method(x, 0.0)), positive);
  EXPECT_EQ(floats(method(x, -0.0)), negative);
}

TEST_F(Guards, SizesThatWereEqualGetSymbolsOfTheirOwnWhenTheyPart) {
  MethodOptions options = named("m", {"x", "y"});
  options.dynamic = Dynamic::kAlways;
  auto method =
      library_.compile([](Context& context, Tensor x,
                          Tensor y) { return std::vector<Tensor>{ops::silu(context, x), ops::silu(context, y)}; },
                       options);
  method(random({4, 8}), random({4, 8}));
  EXPECT_EQ(method.graph(0).symbols().size(), 1u);
  method(random({6, 8}), random({6, 8}));
  EXPECT_EQ(method.variants(), 1);
  expect_text(miss(method, [&] { method(random({4, 8}), random({5, 8})); }),
              "(y.size(0) == x.size(0)) failed: y.size(0) = 5, x.size(0) = 4");
  EXPECT_EQ(method.graph(1).symbols().size(), 2u);
  method(random({9, 8}), random({7, 8}));
  EXPECT_EQ(method.variants(), 2);
  EXPECT_EQ(recompiles(method, "relation"), 1);
}

TEST_F(Guards, BranchesOnDimensionsAreKeptTrue) {
  MethodOptions options = named("m", {"x", "limit"});
  options.dynamic = Dynamic::kAlways;
  int less_line = 0;
  auto method = library_.compile(
      [&](Context& context, Tensor x, Dim limit) {
        less_line = static_cast<int>(std::source_location::current().line()) + 1;
        if (context.is_less(x.shape()[0], limit)) return ops::silu(context, x);
        if (context.is_equal(x.shape()[0], limit)) return ops::copy(context, x);
        if (context.is_at_most(x.shape()[0], limit + Dim(2))) return ops::add(context, x, x);
        return ops::reciprocal(context, x);
      },
      options);
  const auto op = [&](int64_t rows, int64_t limit) {
    method(random({rows, 4}), limit);
    return method.counters().traces;
  };
  EXPECT_EQ(op(4, 8), 1);
  EXPECT_EQ(op(7, 8), 1);
  EXPECT_EQ(op(100, 101), 1);
  EXPECT_EQ(op_names(method, 0), std::vector<std::string>{"silu"});
  const std::string log = miss(method, [&] { op(9, 8); });
  expect_text(log, fmt::format("guard L{} (x.size(0) < limit) failed: x.size(0) = 9, limit = 8", less_line));
  EXPECT_EQ(op_names(method, 1), std::vector<std::string>{"add"});
  EXPECT_EQ(op(10, 8), 2);
  EXPECT_EQ(op(8, 8), 3);
  EXPECT_EQ(op_names(method, 2), std::vector<std::string>{"copy"});
  EXPECT_EQ(op(11, 8), 4);
  EXPECT_EQ(op_names(method, 3), std::vector<std::string>{"reciprocal"});
  EXPECT_EQ(op(30, 8), 4);
  EXPECT_EQ(op(3, 8), 4) << "the first trace again";
  EXPECT_EQ(recompiles(method, "branch") + recompiles(method, "relation"), 3);
}

TEST_F(Guards, DynamicNeverTracesForEverySize) {
  MethodOptions options = named("m");
  options.dynamic = Dynamic::kNever;
  auto method = library_.compile(silu_method(), options);
  for (const int64_t rows : {4, 5, 6, 4, 5}) method(random({rows, 8}));
  EXPECT_EQ(method.variants(), 3);
  EXPECT_TRUE(method.graph(2).symbols().empty());
}

TEST_F(Guards, DynamicAlwaysTracesOnceForAllSizesButZeroAndOne) {
  MethodOptions options = named("m");
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(silu_method(), options);
  for (const int64_t rows : {4, 5, 2, 300}) method(random({rows, 8}));
  EXPECT_EQ(method.variants(), 1);
  method(random({1, 8}));
  EXPECT_EQ(method.variants(), 2);
  EXPECT_EQ(method(random({0, 8})).size(0), 0);
  EXPECT_EQ(method.variants(), 3);
  method(random({0, 8}));
  method(random({1, 8}));
  method(random({3, 8}));
  EXPECT_EQ(method.variants(), 3);
}

TEST_F(Guards, BeyondTheRecompileLimitCallsRunEagerlyAndRight) {
  MethodOptions options = named("m", {"x"});
  options.dynamic = Dynamic::kNever;
  options.recompile_limit = 2;
  auto method = library_.compile(sum_of_two(), [&] {
    options.argument_names = {"x", "y"};
    return options;
  }());
  std::string log;
  for (const int64_t rows : {3, 4, 5, 6, 3, 7}) {
    const Tensor x = random({rows, 8}, 1);
    const Tensor y = random({rows, 8}, 2);
    log += log_of([&] {
      const std::vector<float> sum = floats(method(x, y));
      for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], floats(x)[i] + floats(y)[i]);
    });
  }
  EXPECT_EQ(method.variants(), 2);
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kRecompileLimit), 3);
  EXPECT_EQ(method.counters().eager_runs, 3);
  EXPECT_EQ(recompiles(method, "size"), 1) << "what runs eagerly is not traced";
  EXPECT_EQ(count_of(log, "recompile limit of 2 is reached"), 1) << log;
  expect_text(log, "(x.size(0) == 4) failed: x.size(0) = 5");
}

TEST_F(Guards, SkippingThemLeavesWhatTellsTracesApart) {
  MethodOptions options = named("m");
  options.dynamic = Dynamic::kNever;
  auto method = library_.compile(silu_method(), options);
  const Tensor four = random({4, 8});
  const Tensor five = random({5, 8});
  const std::vector<float> of_four = floats(method(four));
  const std::vector<float> of_five = floats(method(five));
  {
    const Scope scope = library_.set_stance(Stance::kSkipGuardEvalUnsafe);
    EXPECT_EQ(floats(method(four)), of_four);
    EXPECT_EQ(floats(method(five)), of_five);
  }
  method(random({6, 8}));
  EXPECT_EQ(method.variants(), 3) << "the scope has ended";
}

TEST_F(Guards, ASecondTraceFindsAHiddenDependency) {
  MethodOptions options = named("m");
  options.retrace_every = 1;
  double epsilon = 1e-6;
  const Tensor weight = constant({8}, 1);
  int line = 0;
  auto method = library_.compile(
      [&](Context& context, Tensor x) {
        line = static_cast<int>(std::source_location::current().line()) + 1;
        return ops::rms_norm(context, x, weight, epsilon);
      },
      options);
  const Tensor x = random({4, 8});
  method(x);
  method(x);
  epsilon = 1e-3;
  const std::string error = error_of(ErrorCode::kFailedPrecondition, [&] { method(x); });
  expect_text(error, "depends on something that is no argument");
  expect_text(error, fmt::format("guards_test.cc:{}", line));
  expect_text(error, "pass what changes as an argument");
  epsilon = 1e-6;
  method(x);
}

TEST_F(Guards, ASecondTraceFindsAConstantThatWasExchanged) {
  MethodOptions options = named("m");
  options.retrace_every = 1;
  Tensor weight = constant({8}, 1);
  auto method =
      library_.compile([&](Context& context, Tensor x) { return ops::rms_norm(context, x, weight, 1e-6); }, options);
  const Tensor x = random({4, 8});
  method(x);
  const Tensor before = weight;
  weight = constant({8}, 2);
  const std::string error = error_of(ErrorCode::kFailedPrecondition, [&] { method(x); });
  expect_text(error,
              "depends on something that is no argument; 'constant_0' is another tensor now, in guards_test.cc:");
  weight = before;
  method(x);
}

TEST_F(Guards, ASecondTraceFindsNoFaultInArgumentsOfEveryKind) {
  MethodOptions options = named("m");
  options.retrace_every = 1;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(
      [](Context& context, Tensor x, Parameter weight, Dim rows, double scale, bool gated, std::string) {
        if (context.is_less(rows, Dim(100)) && gated && !(scale > 0)) x = ops::silu(context, x);
        return ops::rms_norm(context, x, weight.tensor, 1e-6);
      },
      options);
  const Tensor weight = constant({8}, 1);
  for (const int64_t rows : {4, 5, 1, 200}) {
    method(random({rows, 8}), weight, rows, std::numeric_limits<double>::quiet_NaN(), true, "kind");
  }
}

TEST_F(Guards, ASecondTraceGivesSizesThatHappenToBeEqualTheSymbolsOfTheFirst) {
  MethodOptions options = named("m");
  options.retrace_every = 1;
  options.dynamic = Dynamic::kAlways;
  auto method =
      library_.compile([](Context& context, Tensor x,
                          Tensor y) { return std::array<Tensor, 2>{ops::silu(context, x), ops::silu(context, y)}; },
                       options);
  method(random({4, 8}), random({7, 8}));
  method(random({5, 8}), random({5, 8}));
  method(random({7, 8}), random({4, 8}));
  EXPECT_EQ(method.variants(), 1);
}

// Sizes that an operator needs as numbers stay numbers, whatever has changed before.

auto optional_norm() {
  return [](Context& context, Tensor x, Tensor weight) {
    const Tensor y = ops::silu(context, x);
    return weight.defined() ? ops::rms_norm(context, y, weight, 1e-6) : y;
  };
}

TEST_F(Guards, AnOptionalWeightThatComesBackIsNoSizeThatChanges) {
  auto method = library_.compile(optional_norm());
  method(random({4, 8}), random({8}));
  method(random({4, 8}), Tensor());
  for (const int64_t rows : {4, 5, 6}) EXPECT_EQ(method(random({rows, 8}), random({8})).size(0), rows);
  EXPECT_EQ(method.counters().traces, 3);
  EXPECT_EQ(method.captured_graphs(2), 2) << "rows are symbolic, the weight is not";
}

TEST_F(Guards, AWeightAmongTheTensorsStaysANumberWithDynamicAlways) {
  MethodOptions options = named("norm", {"x", "weight"});
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(optional_norm(), options);
  const std::string log = log_of([&] {
    for (const int64_t rows : {4, 5, 6}) method(random({rows, 8}), random({8}));
  });
  EXPECT_EQ(method.counters().traces, 1);
  EXPECT_EQ(count_of(log, "norm: the size of weight stays a number: "), 1) << log;
  EXPECT_EQ(count_of(log, "the size of x"), 0) << log;
}

TEST_F(Guards, AWeightThatChangesWithTheInnerSizeIsTracedForEach) {
  auto method = library_.compile(optional_norm());
  for (const int64_t columns : {8, 16, 32, 8}) {
    EXPECT_EQ(method(random({4, columns}), random({columns})).size(1), columns);
  }
  EXPECT_EQ(method.counters().traces, 3);
}

TEST_F(Guards, AFaultyCallTeachesNothing) {
  auto method = library_.compile([](Context& context, Tensor x, Tensor y) { return ops::add(context, x, y); });
  method(random({4, 8}), random({4, 8}));
  method(random({5, 8}), random({5, 8}));
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(random({6, 8}), random({7, 8})); }),
              "has shape [7, 8], expected [6, 8]");
  method(random({6, 16}), random({6, 16}));
  method(random({7, 16}), random({7, 16}));
  EXPECT_EQ(method.counters().traces, 3) << "the sizes still share one symbol";
}

TEST_F(Guards, SizesThatPartedMayHaveToBeEqualElsewhere) {
  auto method = library_.compile([](Context& context, Tensor x, Tensor y, bool both) {
    return both ? ops::add(context, x, y) : ops::add(context, x, x);
  });
  method(random({4, 8}), random({4, 8}), false);
  method(random({5, 8}), random({5, 8}), false);
  method(random({5, 8}), random({6, 8}), false);
  for (const int64_t rows : {5, 6}) EXPECT_EQ(method(random({rows, 8}), random({rows, 8}), true).size(0), rows);
  EXPECT_EQ(method.counters().traces, 4);
  // The same where only one of them has changed so far.
  auto other = library_.compile([](Context& context, Tensor x, Tensor y, bool both) {
    return both ? ops::add(context, x, y) : ops::add(context, x, x);
  });
  other(random({4, 8}), random({6, 8}), false);
  other(random({5, 8}), random({6, 8}), false);
  EXPECT_EQ(other(random({6, 8}), random({6, 8}), true).size(0), 6);
}

TEST_F(Guards, ASumOfTwoSizesIsTracedWithOneOfThemAsANumber) {
  const auto joined = [](Context& context, Tensor x, Tensor y) {
    const Tensor parts[] = {x, y};
    return ops::silu(context, ops::cat(context, parts, 0));
  };
  for (const Dynamic dynamic : {Dynamic::kAutomatic, Dynamic::kAlways}) {
    MethodOptions options;
    options.dynamic = dynamic;
    auto method = library_.compile(joined, options);
    for (const int64_t rows : {2, 3, 4, 5}) {
      for (const int64_t others : {7, 6}) {
        EXPECT_EQ(method(random({rows, 8}), random({others, 8})).size(0), rows + others);
      }
    }
    EXPECT_EQ(method.counters().replays, 8);
    EXPECT_LE(method.counters().traces, 4) << "rows are a symbol";
  }
}

TEST_F(Guards, BranchesHoldForTheLargestIntegers) {
  auto method = library_.compile([](Context& context, Tensor x, Dim d) {
    return context.is_less(d + 7, Dim(11)) ? ops::add(context, x, x) : ops::mul(context, x, x);
  });
  const Tensor x = constant({1, 2}, 3);
  for (const int64_t d : {3, 2, 9}) EXPECT_EQ(floats(method(x, d))[0], d < 4 ? 6 : 9) << d;
  // No trace fits, and the guard that is looked at would wrap around.
  error_of(ErrorCode::kUnsupported, [&] { method(x, std::numeric_limits<int64_t>::max()); });
  EXPECT_EQ(floats(method(x, std::numeric_limits<int64_t>::min()))[0], 6);
  EXPECT_EQ(floats(method(x, 2))[0], 6);
}

}  // namespace
TEST_F(Guards, AMethodThatUsesASizeAsANumberIsTracedForEachSize) {
  Library library = Library::open("cpu", 1);
  MethodOptions options;
  options.name = "halves";
  options.recompile_limit = 3;
  auto method = library.compile(
      [](Context& context, Tensor x) { return ops::silu(context, ops::slice(context, x, 0, 0, x.size(0) / 2)); },
      options);
  std::string log;
  for (const int64_t rows : {4, 6, 10, 6, 4}) {
    const Tensor x = random_tensor(library, {rows, 8});
    log += log_of([&] { EXPECT_EQ(method(x).size(0), rows / 2); });
  }
  EXPECT_EQ(method.variants(), 3);
  EXPECT_EQ(method.counters().recompiles.at("size"), 2);
  EXPECT_EQ(method.counters().replays, 5);
  EXPECT_EQ(count_of(log, "halves is traced for these sizes alone"), 1) << log;
  const std::string text = log_of([&] { EXPECT_EQ(method(random_tensor(library, {12, 8})).size(0), 6); });
  expect_text(text, "recompile limit of 3");
}

}  // namespace reprise
