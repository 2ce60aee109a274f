#include "api/library_test_support.h"
#include "ops/checks.h"
#include "reprise/cpu_kernel.h"

namespace reprise {
namespace {

struct RaiseArguments {
  const float* x;
  float* y;
  int64_t rows;
  int64_t columns;
};

/// Adds to each row the number that the launch's tail holds for it.
void raise_rows(const void* block, int64_t first, int64_t last) {
  const auto& arguments = *static_cast<const RaiseArguments*>(block);
  const int32_t* amounts = device::cpu::tail_of<RaiseArguments>(block);
  for (int64_t row = first; row < last; ++row) {
    for (int64_t column = 0; column < arguments.columns; ++column) {
      const int64_t i = row * arguments.columns + column;
      arguments.y[i] = arguments.x[i] + static_cast<float>(amounts[row]);
    }
  }
}

constexpr CpuKernel kRaise{"raise", raise_rows};

void infer_raise(const ops::OpCall& call, std::span<TensorMeta> outputs) {
  ops::require_contiguous(call, 0);
  outputs[0] = call.inputs[0].meta();
}

void plan_raise(const ops::OpCall& call, ops::Tiling& tiling) {
  tiling.values.assign(call.lists[0].values.begin(), call.lists[0].values.end());
  tiling.tiles = call.inputs[0].size(0);
}

void launch_raise(const ops::OpCall& call, std::span<const int32_t> amounts) {
  const Tensor& x = call.inputs[0];
  launch_cpu_kernel(call, kRaise, x.size(0),
                    RaiseArguments{x.data_as<float>(), call.outputs[0].data_as<float>(), x.size(0), x.size(1)},
                    amounts);
}

/// A host-tiled operator of the user's own: `amounts` may be given anew to a captured launch.
ops::OpDef updatable_raise() {
  ops::OpDef op("raise(Tensor x, int[]^ amounts) -> Tensor y", {.host_tiled = true}, infer_raise, nullptr);
  op.set_kernel("cpu",
                {.run = [](const ops::OpCall& call) { launch_raise(call, call.tiling->values); }, .plan = plan_raise});
  return op;
}

/// The same without a plan: its list is frozen at capture.
ops::OpDef fixed_raise() {
  ops::OpDef op("fixed_raise(Tensor x, int[] amounts) -> Tensor y", {}, infer_raise, nullptr);
  op.set_kernel("cpu", {.run = [](const ops::OpCall& call) { launch_raise(call, call.lists[0].values); }});
  return op;
}

Tensor raise(Context& context, std::string_view op, const Tensor& x, const HostList& amounts,
             std::source_location where = std::source_location::current()) {
  return ops::dispatch_call(context, op, {x}, {amounts}, {}, where);
}

class Keys : public LibraryTest {
 protected:
  Keys() {
    library_.register_operator(updatable_raise());
    library_.register_operator(fixed_raise());
  }
};

TEST_F(Keys, OneGraphIsCapturedForEachValueOfASymbol) {
  MethodOptions options;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(silu_method(), options);
  for (const int64_t rows : {4, 5, 4, 6, 5}) method(random({rows, 8}));
  EXPECT_EQ(method.variants(), 1);
  EXPECT_EQ(method.captured_graphs(), 3);
  EXPECT_EQ(method.counters().captures, 3);
  EXPECT_EQ(method.counters().replays, 5);
}

TEST_F(Keys, SizesAndDimensionsMakeTheKeyTogether) {
  MethodOptions options = named("m", {"x", "scale"});
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile([](Context& context, Tensor x, Dim) { return ops::silu(context, x); }, options);
  const auto captures = [&](int64_t rows, int64_t scale) {
    method(random({rows, 8}), scale);
    return method.captured_graphs();
  };
  EXPECT_EQ(captures(4, 7), 1);
  EXPECT_EQ(captures(4, 8), 2);
  EXPECT_EQ(captures(4, 7), 2);
  EXPECT_EQ(captures(5, 7), 3);
  EXPECT_EQ(method.variants(), 1);
  expect_text(method.explain(), "captured: x.size(0) = 4, scale = 8");
  EXPECT_EQ(captures(1, 7), 3) << "of the first trace";
  EXPECT_EQ(method.variants(), 2) << "1 is traced for itself";
}

TEST_F(Keys, WithoutAnythingThatVariesThereIsOneKey) {
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList amounts) { return raise(context, "raise", x, amounts); });
  const std::vector<int32_t> amounts = {1, 2, 3};
  method(random({3, 4}), amounts);
  expect_text(method.explain(), "captured: one key");
}

TEST_F(Keys, AnUpdatableListIsGivenAnewAndInNoKey) {
  for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    for (const Mode mode : {Mode::kFull, Mode::kPiecewise, Mode::kForceEager}) {
      MethodOptions options = named("m", {"x", "amounts"});
      options.update_order = order;
      options.mode = mode;
      options.splitting_ops = {"silu"};
      auto method = library_.compile(
          [](Context& context, Tensor x, HostList amounts) {
            const Tensor y = raise(context, "raise", ops::add(context, x, x), amounts);
            return raise(context, "raise", y, amounts);
          },
          options);
      const Tensor x = constant({3, 2}, 1);
      for (int32_t call = 0; call < 5; ++call) {
        const std::vector<int32_t> amounts = {call, 2 * call, 100};
        const auto c = static_cast<float>(call);
        EXPECT_EQ(floats(method(x, amounts)),
                  (std::vector<float>{2 + 2 * c, 2 + 2 * c, 2 + 4 * c, 2 + 4 * c, 202, 202}));
      }
      EXPECT_EQ(method.variants(), 1);
      EXPECT_EQ(method.counters().captures, mode == Mode::kForceEager ? 0 : 1);
      expect_text(method.explain(), "list amounts: updatable");
    }
  }
}

TEST_F(Keys, CallsThatAreQueuedBehindEachOtherKeepTheirOwnLists) {
  for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    MethodOptions options;
    options.update_order = order;
    options.compile.clone_output = true;
    auto method = library_.compile(
        [](Context& context, Tensor x, HostList amounts) {
          return raise(context, "raise", raise(context, "raise", x, amounts), amounts);
        },
        options);
    std::vector<Tensor> results;
    for (int32_t call = 0; call < 6; ++call) {
      const std::vector<int32_t> amounts = {call, 10 * call};
      results.push_back(method(constant({2, 1}, 1), amounts));
    }
    for (size_t call = 0; call < results.size(); ++call) {
      const auto c = static_cast<float>(call);
      EXPECT_EQ(floats(results[call]), (std::vector<float>{1 + 2 * c, 1 + 20 * c})) << call;
    }
  }
}

TEST_F(Keys, EachCapturedGraphHasUpdatesOfItsOwn) {
  MethodOptions options;
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList amounts) { return raise(context, "raise", x, amounts); }, options);
  for (int32_t round = 0; round < 3; ++round) {
    for (const int64_t rows : {2, 3, 4}) {
      const std::vector<int32_t> amounts(static_cast<size_t>(rows), 10 * round + static_cast<int32_t>(rows));
      const auto expected = static_cast<float>(10 * round + rows);
      EXPECT_EQ(floats(method(constant({rows, 2}, 0), amounts)),
                std::vector<float>(static_cast<size_t>(2 * rows), expected));
    }
  }
  EXPECT_EQ(method.counters().captures, 3);
}

TEST_F(Keys, AListOfAnOperatorThatCannotBeUpdatedIsPartOfTheKey) {
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList amounts) {
        return raise(context, "fixed_raise", raise(context, "raise", x, amounts), amounts);
      },
      named("m", {"x", "amounts"}));
  const Tensor x = constant({2, 1}, 0);
  const auto call = [&](std::vector<int32_t> amounts) { return floats(method(x, amounts)); };
  EXPECT_EQ(call({1, 2}), (std::vector<float>{2, 4}));
  EXPECT_EQ(call({3, 2}), (std::vector<float>{6, 4}));
  EXPECT_EQ(call({1, 2}), (std::vector<float>{2, 4}));
  EXPECT_EQ(method.variants(), 1);
  EXPECT_EQ(method.counters().captures, 2);
  expect_text(method.explain(), "list amounts: part of the key");
}

TEST_F(Keys, AListThatNobodyTakesIsInNoKey) {
  auto method = library_.compile([](Context& context, Tensor x, HostList) { return ops::silu(context, x); });
  for (const int32_t value : {1, 2, 3}) method(random({2, 8}), std::vector<int32_t>{value});
  EXPECT_EQ(method.counters().captures, 1);
}

TEST_F(Keys, ListsOfDifferentLengthsMakeDifferentKeys) {
  MethodOptions options = named("m", {"x", "amounts"});
  options.dynamic = Dynamic::kAlways;
  options.compile.capture_limit = 3;
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList amounts) { return raise(context, "fixed_raise", x, amounts); }, options);
  const std::string log = log_of([&] {
    for (const int64_t rows : {4, 2, 3, 5, 2}) {
      const std::vector<int32_t> amounts(static_cast<size_t>(rows), static_cast<int32_t>(rows));
      EXPECT_EQ(floats(method(constant({rows, 1}, 1), amounts)),
                std::vector<float>(static_cast<size_t>(rows), static_cast<float>(rows + 1)));
    }
  });
  EXPECT_EQ(method.counters().captures, 3);
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), 1);
  expect_text(log, "what varies: x.size(0) (4 values), amounts");
}

TEST_F(Keys, BeyondTheCaptureLimitCallsRunNodeByNodeAndRight) {
  for (const int64_t limit : {1, 2}) {
    MethodOptions options = named("m", {"x", "weight"});
    options.dynamic = Dynamic::kAlways;
    options.compile.capture_limit = limit;
    auto method = library_.compile(
        [](Context& context, Tensor x, Parameter weight) {
          return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
        },
        options);
    options.mode = Mode::kEager;
    auto eager = library_.compile(
        [](Context& context, Tensor x, Parameter weight) {
          return ops::rms_norm(context, ops::add(context, x, x), weight.tensor, 1e-6);
        },
        options);
    const Tensor weight = random({8});
    const std::string log = log_of([&] {
      for (const int64_t rows : {4, 5, 6, 5, 4, 7}) {
        const Tensor x = random({rows, 8}, static_cast<int>(rows));
        EXPECT_EQ(floats(method(x, weight)), floats(eager(x, weight)));
      }
    });
    EXPECT_EQ(method.captured_graphs(), limit);
    EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), limit == 1 ? 4 : 2);
    EXPECT_EQ(method.counters().node_runs, limit == 1 ? 4 : 2);
    EXPECT_EQ(method.counters().replays, limit == 1 ? 2 : 4);
    EXPECT_EQ(count_of(log, "is reached"), 1) << log;
    expect_text(log, fmt::format("m: capture_limit of {} graphs is reached", limit));
    expect_text(log, fmt::format("what varies: x.size(0) ({} values)", limit + 1));
  }
}

TEST_F(Keys, MovingWeightsAreNamedWhenTheyExceedTheLimit) {
  MethodOptions options = named("m", {"x", "amounts", "bias", "weight"});
  options.compile.capture_limit = 2;
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList amounts, Parameter bias, Parameter weight) {
        x = raise(context, "fixed_raise", x, amounts);
        return ops::rms_norm_bias(context, x, weight.tensor, bias.tensor, 1e-6);
      },
      options);
  const Tensor bias = random({8});
  std::vector<Tensor> weights;
  const std::vector<int32_t> amounts = {1, 2};
  const std::string log = log_of([&] {
    for (int call = 0; call < 4; ++call) {
      weights.push_back(random({8}, call));
      method(random({2, 8}), amounts, bias, weights.back());
    }
  });
  expect_text(log, "what varies: address of weight (3 values). ");
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), 2);
}

TEST_F(Keys, EveryElementOfAListIsNamedAsItsList) {
  MethodOptions options = named("m", {"x", "first", "second"});
  options.compile.capture_limit = 1;
  auto method = library_.compile(
      [](Context& context, Tensor x, HostList first, HostList second) {
        return raise(context, "fixed_raise", raise(context, "fixed_raise", x, first), second);
      },
      options);
  const Tensor x = constant({2, 1}, 0);
  const std::vector<int32_t> fixed = {1, 2};
  const std::string log = log_of([&] {
    method(x, fixed, std::vector<int32_t>{3, 4});
    EXPECT_EQ(floats(method(x, fixed, std::vector<int32_t>{3, 5})), (std::vector<float>{4, 7}));
  });
  expect_text(log, "what varies: second (2 values)");
  EXPECT_EQ(log.find("first ("), std::string::npos) << log;
}

TEST_F(Keys, RecapturesDoNotCountForTheLimit) {
  MethodOptions options;
  options.compile.capture_limit = 1;
  auto method = library_.compile(
      [](Context& context, Tensor state) {
        double_in_place(context, state);
        return ops::silu(context, state);
      },
      options);
  for (int call = 0; call < 3; ++call) method(constant({2, 4}, 1));
  std::vector<Tensor> kept;
  for (int call = 0; call < 3; ++call) {
    kept.push_back(constant({2, 4}, 1));
    method(kept.back());
  }
  EXPECT_GE(method.counters().recaptured(RecaptureReason::kMutatedInputMoved), 3);
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), 0);
  EXPECT_EQ(method.counters().replays, 6);
}

TEST_F(Keys, CapturesRecapturesAndFallbacksAreCountedByReason) {
  MethodOptions options = named("m", {"state", "x"});
  options.dynamic = Dynamic::kAlways;
  options.compile.capture_limit = 3;
  auto method = library_.compile(
      [](Context& context, Tensor state, Tensor x) {
        double_in_place(context, state);
        return ops::silu(context, x);
      },
      options);
  const Tensor a = constant({1, 4}, 1);
  const Tensor b = constant({1, 4}, 1);
  for (const int64_t rows : {2, 3, 4, 5, 2}) method(a, random({rows, 8}));
  method(b, random({2, 8}));
  method(b, random({6, 8}));
  EXPECT_EQ(method.counters().to_text(),
            "calls: 7\nreplays: 5\nnode by node: 2\nruns of the method's code: 1\ntraces: 1\ncaptures: 3\n"
            "copied inputs: 7\nrecaptures (mutated_input_moved): 1\nfallbacks (capture_limit): 2\n");
  EXPECT_EQ(floats(a)[0], 32);
  EXPECT_EQ(floats(b)[0], 4);
}

}  // namespace
}  // namespace reprise
