#include <algorithm>

#include "api/library_test_support.h"
#include "ops/linear_merge.h"

namespace reprise {
namespace {

class Recapture : public LibraryTest {};

/// Adds `y` to `state`, in place, and returns what is there then, twice.
auto accumulate() {
  return [](Context& context, Tensor state, Tensor y) {
    ops::copy_(context, state, ops::add(context, state, y));
    return ops::add(context, state, state);
  };
}

auto weighted_norm() {
  return [](Context& context, Tensor x, Parameter weight) { return ops::rms_norm(context, x, weight.tensor, 1e-6); };
}

int64_t recaptured(const CompiledMethod& method) {
  int64_t sum = 0;
  for (const int64_t count : method.counters().recaptures) sum += count;
  return sum;
}

TEST_F(Recapture, AnInputThatMovesIsCopied) {
  auto method = library_.compile(silu_method());
  const Tensor a = random({3, 8}, 1);
  const Tensor b = random({3, 8}, 2);
  const std::vector<float> of_a = floats(method(a));
  const std::vector<float> of_b = floats(method(b));
  EXPECT_NE(of_a, of_b);
  EXPECT_EQ(floats(method(a)), of_a);
  EXPECT_EQ(method.counters().captures, 1);
  EXPECT_EQ(recaptured(method), 0);
  EXPECT_EQ(method.counters().copied_inputs, 3);
}

TEST_F(Recapture, AMutatedInputThatStaysIsNotCopiedAndWarnsOfNothing) {
  auto method = library_.compile(accumulate());
  const Tensor state = constant({2, 4}, 1);
  const Tensor one = constant({2, 4}, 1);
  const std::string log = log_of([&] {
    for (int call = 0; call < 3; ++call) EXPECT_EQ(floats(method(state, one))[0], 2.0f * static_cast<float>(call + 2));
  });
  EXPECT_EQ(floats(state)[7], 4);
  EXPECT_EQ(log, "");
  EXPECT_EQ(recaptured(method), 0);
  EXPECT_EQ(method.counters().copied_inputs, 3) << "of y only";
}

TEST_F(Recapture, AMutatedInputThatMovesIsCapturedAgain) {
  auto method = library_.compile(accumulate());
  const Tensor one = constant({2, 4}, 1);
  const Tensor a = constant({2, 4}, 1);
  const Tensor b = constant({2, 4}, 10);
  method(a, one);
  std::string log = log_of([&] { method(b, one); });
  expect_text(log, "capturing method again: mutated_input_moved");
  method(b, one);
  EXPECT_EQ(floats(a)[0], 2);
  EXPECT_EQ(floats(b)[0], 12);
  EXPECT_EQ(method.counters().captures, 1);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kMutatedInputMoved), 1);
  method(a, one);
  EXPECT_EQ(floats(a)[0], 3);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kMutatedInputMoved), 2);
  EXPECT_EQ(method.captured_graphs(), 1);
}

TEST_F(Recapture, EachKeyIsCapturedAgainForItself) {
  MethodOptions options;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(
      [](Context& context, Tensor state, Tensor x) {
        double_in_place(context, state);
        return ops::silu(context, x);
      },
      options);
  const Tensor a = constant({1, 4}, 1);
  const Tensor b = constant({1, 4}, 1);
  const auto call = [&](const Tensor& state, int64_t rows) { method(state, random({rows, 8})); };
  call(a, 2);
  call(a, 3);
  EXPECT_EQ(recaptured(method), 0);
  call(b, 2);
  EXPECT_EQ(recaptured(method), 1);
  call(b, 2);
  EXPECT_EQ(recaptured(method), 1);
  call(a, 3);
  EXPECT_EQ(recaptured(method), 1) << "the other key still has its address";
  call(b, 3);
  EXPECT_EQ(recaptured(method), 2);
  EXPECT_EQ(method.counters().captures, 2);
  EXPECT_EQ(floats(a)[0], 8);
  EXPECT_EQ(floats(b)[0], 8);
}

TEST_F(Recapture, AParameterThatMovesIsAnotherKey) {
  auto method = library_.compile(weighted_norm());
  const Tensor x = random({3, 8});
  const Tensor one = constant({8}, 1);
  const Tensor two = constant({8}, 2);
  const std::vector<float> with_one = floats(method(x, one));
  const std::vector<float> with_two = floats(method(x, two));
  for (size_t i = 0; i < with_one.size(); ++i) EXPECT_EQ(with_two[i], 2 * with_one[i]);
  EXPECT_EQ(floats(method(x, one)), with_one);
  EXPECT_EQ(method.variants(), 1);
  EXPECT_EQ(method.counters().captures, 2);
  EXPECT_EQ(recaptured(method), 0);
}

TEST_F(Recapture, AFrozenParameterIsInNoKeyAndMustNotMove) {
  MethodOptions options = named("frozen", {"x", "weight"});
  options.compile.frozen_parameter = true;
  auto method = library_.compile(weighted_norm(), options);
  const Tensor x = random({3, 8});
  const Tensor one = constant({8}, 1);
  const std::vector<float> with_one = floats(method(x, one));
  EXPECT_EQ(floats(method(x, one)), with_one);
  const std::string error = error_of(ErrorCode::kInvalidArgument, [&] { method(x, constant({8}, 2)); });
  expect_text(error, "frozen: parameter 'weight' has moved");
  expect_text(error, "turn frozen_parameter off");
  EXPECT_EQ(floats(method(x, one)), with_one);
  EXPECT_EQ(method.counters().captures, 1);
}

TEST_F(Recapture, FrozenParametersMayBeUnusedSharedOrMerged) {
  MethodOptions options = named("frozen", {"x", "gate", "up", "down", "tied", "unused"});
  options.compile.frozen_parameter = true;
  const auto layer = [](Context& context, Tensor x, Parameter gate, Parameter up, Parameter down, Parameter tied,
                        Parameter) {
    const Tensor hidden = ops::mul(context, ops::silu(context, ops::linear(context, x, {gate.tensor, {}})),
                                   ops::linear(context, x, {up.tensor, {}}));
    return ops::add(context, ops::linear(context, hidden, {down.tensor, {}}),
                    ops::linear(context, hidden, {tied.tensor, {}}));
  };
  auto method = library_.compile(layer, options);
  options.mode = Mode::kEager;
  auto eager = library_.compile(layer, options);
  const Tensor x = random({3, 16});
  // As a loader leaves weights that are to be merged: one behind the other.
  const std::array weights = {ops::LinearWeights{pack(random({32, 16}, 1)), {}},
                              ops::LinearWeights{pack(random({32, 16}, 2)), {}}};
  const std::vector<ops::LinearWeights> parts =
      ops::merge_linear_weights(library_.registry(), library_.device(), weights).parts;
  const Tensor gate = parts[0].weight;
  const Tensor up = parts[1].weight;
  const Tensor down = pack(random({16, 32}, 3));
  const Tensor unused = random({4}, 3);
  const std::vector<float> expected = floats(eager(x, gate, up, down, down, unused));
  for (int call = 0; call < 2; ++call) EXPECT_EQ(floats(method(x, gate, up, down, down, unused)), expected);
  const std::vector<std::string> ops = op_names(method);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "linear"), 3) << method.explain();
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(x, gate, gate, down, down, unused); }),
              "parameter 'up' has moved");
  expect_text(
      error_of(ErrorCode::kInvalidArgument, [&] { method(x, gate, up, down, pack(random({16, 32}, 4)), unused); }),
      "parameter 'tied' has moved");
  EXPECT_EQ(floats(method(x, gate, up, down, down, unused)), expected);
}

TEST_F(Recapture, WithoutCloneInputTheFirstAddressIsBoundUntilItMoves) {
  MethodOptions options;
  options.compile.clone_input = false;
  auto method = library_.compile(silu_method(), options);
  const Tensor a = random({3, 8}, 1);
  const Tensor b = random({3, 8}, 2);
  const std::vector<float> of_a = floats(method(a));
  EXPECT_EQ(floats(method(a)), of_a);
  EXPECT_EQ(method.counters().copied_inputs, 0);
  const std::vector<float> of_b = floats(method(b));
  EXPECT_NE(of_a, of_b);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kInputMoved), 1);
  EXPECT_EQ(floats(method(a)), of_a) << "the first tensor was not overwritten";
  EXPECT_EQ(floats(method(b)), of_b);
  EXPECT_EQ(recaptured(method), 1) << "copied from then on";
  EXPECT_EQ(floats(a), numbers(24, 1));
  EXPECT_EQ(floats(b), numbers(24, 2));
}

TEST_F(Recapture, WithoutCloneInputEveryKeyFollowsAnInputThatMoved) {
  MethodOptions options;
  options.compile.clone_input = false;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(silu_method(), options);
  auto copied = library_.compile(silu_method());
  for (int round = 0; round < 3; ++round) {
    for (const int64_t rows : {2, 3, 4}) {
      const Tensor x = random({rows, 8}, round);
      EXPECT_EQ(floats(method(x)), floats(copied(x))) << round << " " << rows;
    }
  }
  EXPECT_LE(recaptured(method), 3);
}

TEST_F(Recapture, AnotherCoreLimitIsCapturedAgain) {
  auto method = library_.compile(silu_method());
  const Tensor x = random({64, 64});
  const std::vector<float> expected = floats(method(x));
  {
    const Scope scope = library_.limit_core_num(1);
    EXPECT_EQ(floats(method(x)), expected);
    EXPECT_EQ(floats(method(x)), expected);
    EXPECT_EQ(method.counters().recaptured(RecaptureReason::kCoreLimitChanged), 1);
  }
  EXPECT_EQ(floats(method(x)), expected);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kCoreLimitChanged), 2);
  EXPECT_EQ(method.counters().captures, 1);
}

TEST_F(Recapture, CoreLimitsAreCheckedAndNest) {
  const int cores = library_.device().capabilities().cores;
  for (const auto& [matrix, vector] : {std::pair{0, 0}, {-1, 0}, {cores + 1, 0}, {1, cores + 1}, {1, -1}}) {
    error_of(ErrorCode::kInvalidArgument, [&] { library_.limit_core_num(matrix, vector).close(); });
  }
  EXPECT_EQ(library_.stream().core_limit(), device::CoreLimit());
  {
    const Scope outer = library_.limit_core_num(2);
    {
      const Scope inner = library_.limit_core_num(1, 1);
      EXPECT_EQ(library_.stream().core_limit(), (device::CoreLimit{1, 1}));
    }
    EXPECT_EQ(library_.stream().core_limit(), (device::CoreLimit{2, 0}));
  }
  EXPECT_EQ(library_.stream().core_limit(), device::CoreLimit());
}

TEST_F(Recapture, ScopesOfALibraryMayEndInAnyOrder) {
  const auto cores = [&] { return library_.stream().core_limit().matrix_cores; };
  Scope one = library_.limit_core_num(1);
  Scope two = library_.limit_core_num(2);
  one.close();
  EXPECT_EQ(cores(), 2) << "the one that was opened last holds";
  two.close();
  EXPECT_EQ(cores(), 0);
  // The same for the stance: a wrong argument is an error where guards are skipped, and another trace where not.
  auto method = library_.compile(silu_method());
  method(random({3, 8}));
  Scope skipped = library_.set_stance(Stance::kSkipGuardEvalUnsafe);
  Scope checked = library_.set_stance(Stance::kDefault);
  skipped.close();
  checked.close();
  EXPECT_EQ(method(random({4, 8})).size(0), 4);
}

TEST_F(Recapture, ForceRecaptureCapturesOnEveryCall) {
  for (const bool forced : {true, false}) {
    MethodOptions options;
    options.compile.force_recapture = forced;
    auto method = library_.compile(silu_method(), options);
    const Tensor x = random({3, 8});
    const std::vector<float> expected = floats(method(x));
    for (int call = 0; call < 3; ++call) EXPECT_EQ(floats(method(x)), expected);
    EXPECT_EQ(method.counters().captures, 1);
    EXPECT_EQ(method.counters().recaptured(RecaptureReason::kForced), forced ? 3 : 0);
    EXPECT_EQ(method.counters().replays, 4);
  }
}

}  // namespace
}  // namespace reprise
