#include "api/library_test_support.h"
#include "device/ascend/ascend_device.h"
#include "kernels/ascend/register_ascend_kernels.h"

namespace reprise {
namespace {

/// silu on a side stream beside a product on the method's own, and a cat of what both make.
auto two_streams() {
  return [](Context& context, Tensor x, Tensor state) {
    ops::record_event(context, "start");
    Tensor y, z;
    {
      const auto side = ops::stream(context, "side");
      ops::wait_event(context, "start");
      y = ops::silu(context, x);
      const auto limit = ops::limit_core_num(context, 1);
      z = ops::reciprocal(context, ops::add(context, y, x));
      ops::record_event(context, "done");
    }
    const Tensor product = ops::mul(context, x, x);
    ops::copy_(context, state, ops::add(context, state, product));
    ops::wait_event(context, "done");
    return std::array<Tensor, 2>{ops::cat(context, std::array{product, y}, 0), ops::add(context, z, product)};
  };
}

/// The same in the order in which it is written.
auto one_stream() {
  return [](Context& context, Tensor x, Tensor state) {
    const Tensor y = ops::silu(context, x);
    const Tensor z = ops::reciprocal(context, ops::add(context, y, x));
    const Tensor product = ops::mul(context, x, x);
    ops::copy_(context, state, ops::add(context, state, product));
    return std::array<Tensor, 2>{ops::cat(context, std::array{product, y}, 0), ops::add(context, z, product)};
  };
}

constexpr int kAscend = 0;

/// On the CPU with so many threads, or on the Ascend device over the emulator.
Library open_library(int threads) {
  if (threads != kAscend) return Library::open("cpu", threads);
#ifdef REPRISE_EMULATOR_DIR
  device::ascend::AscendOptions options;
  options.library.folder = REPRISE_EMULATOR_DIR;
  options.wait_limit_ms = 60000;
  ops::Registry registry = ops::make_catalogue();
  auto device = device::ascend::create_ascend_device(options);
  kernels::ascend::register_ascend_kernels(registry, *device);
  return {std::move(device), std::move(registry)};
#else
  throw Error(ErrorCode::kUnsupported, "there is no emulator in this build");
#endif
}

class StreamsOfMethods : public ::testing::TestWithParam<int> {
 protected:
  template <typename Callable>
  std::vector<std::vector<float>> run(Callable callable, const MethodOptions& options) {
    auto method = library_.compile(callable, options);
    const Tensor state = random_tensor(library_, {4, 8}, 9);
    std::vector<std::vector<float>> contents;
    for (int call = 0; call < 6; ++call) {
      const auto [a, b] = method(random_tensor(library_, {4, 8}, call), state);
      contents.push_back(library_.to_floats(a));
      contents.push_back(library_.to_floats(b));
    }
    contents.push_back(library_.to_floats(state));
    counters_ = method.counters();
    return contents;
  }

  Library library_ = open_library(GetParam());
  MethodCounters counters_;
};

TEST_P(StreamsOfMethods, GiveTheBitsOfOneStreamInEveryMode) {
  MethodOptions options;
  options.mode = Mode::kEager;
  const auto expected = run(one_stream(), options);
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull}) {
    for (const bool passes : {true, false}) {
      options.mode = mode;
      options.compile.passes.inplace_pass = passes;
      options.compile.passes.remove_cat_ops = passes;
      EXPECT_EQ(run(two_streams(), options), expected) << name_of(mode) << passes;
      EXPECT_EQ(counters_.replays, mode == Mode::kFull ? 6 : 0);
    }
  }
}

TEST_P(StreamsOfMethods, RunNodeByNodeWhereTheyCannotBeCutAndSayWhy) {
  MethodOptions options;
  options.mode = Mode::kPiecewise;
  options.splitting_ops = {"mul"};
  std::vector<std::vector<float>> contents;
  const std::string log = log_of([&] { contents = run(two_streams(), options); });
  options.mode = Mode::kEager;
  EXPECT_EQ(contents, run(one_stream(), options));
  expect_text(log, "failed, it runs node by node");
}

TEST_P(StreamsOfMethods, ACoreLimitFromOutsideIsInheritedAndCapturedAgain) {
  auto method = library_.compile(two_streams());
  const Tensor x = random_tensor(library_, {4, 8}, 1);
  const Tensor state = random_tensor(library_, {4, 8}, 2);
  const std::vector<float> expected = library_.to_floats(method(x, state)[0]);
  for (int round = 0; round < 2; ++round) {
    const Scope scope = library_.limit_core_num(1);
    EXPECT_EQ(library_.to_floats(method(x, state)[0]), expected);
    EXPECT_EQ(library_.stream().core_limit(), (device::CoreLimit{1, 0})) << "what the method changed is taken back";
  }
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kCoreLimitChanged), 1);
}

TEST_P(StreamsOfMethods, AreCapturedForEachKey) {
  MethodOptions options;
  options.dynamic = Dynamic::kAlways;
  options.retrace_every = 3;
  auto method = library_.compile(two_streams(), options);
  options.mode = Mode::kEager;
  auto eager = library_.compile(one_stream(), options);
  for (const int64_t rows : {2, 3, 4, 3, 2, 5}) {
    const Tensor x = random_tensor(library_, {rows, 8}, 1);
    const Tensor state = random_tensor(library_, {rows, 8}, 2);
    const Tensor same = random_tensor(library_, {rows, 8}, 2);
    EXPECT_EQ(library_.to_floats(method(x, state)[0]), library_.to_floats(eager(x, same)[0]));
    EXPECT_EQ(library_.to_floats(state), library_.to_floats(same));
  }
  EXPECT_EQ(method.variants(), 1);
  EXPECT_EQ(method.counters().captures, 4);
}

TEST_P(StreamsOfMethods, WhatIsOrderedByEventsRunsInPlaceAndTheRestDoesNot) {
  const auto chain = [](bool protect) {
    return [protect](Context& context, Tensor x) {
      const Tensor y = ops::add(context, x, x);
      ops::record_event(context, "y");
      Tensor z;
      {
        const auto side = ops::stream(context, "side");
        ops::wait_event(context, "y");
        z = ops::mul(context, y, x);
        ops::record_event(context, "z");
      }
      if (protect) ops::wait_event(context, "z");
      const Tensor w = ops::silu(context, y);
      if (!protect) ops::wait_event(context, "z");
      return ops::add(context, w, z);
    };
  };
  const Tensor x = random_tensor(library_, {4, 8}, 1);
  std::vector<float> results[2];
  for (const bool protect : {false, true}) {
    auto method = library_.compile(chain(protect));
    results[protect] = library_.to_floats(method(x));
    const std::vector<std::string> names = op_names(method);
    EXPECT_EQ(std::count(names.begin(), names.end(), "silu_"), protect ? 1 : 0) << method.explain();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(StreamsOfMethods, AMethodCalledOnASideStreamOfAnotherWaitsForItAndIsWaitedFor) {
  MethodOptions eager;
  eager.mode = Mode::kEager;
  const auto inner_method = [](Context& context, Tensor x) { return ops::add(context, ops::silu(context, x), x); };
  const auto plain = [&](Context& context, Tensor x) {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = ops::add(context, y, x);
    return ops::add(context, ops::add(context, inner_method(context, y), y), x);
  };
  auto expected = library_.compile(plain, eager);
  for (const Mode mode : {Mode::kFull, Mode::kForceEager, Mode::kEager}) {
    MethodOptions options;
    options.mode = mode;
    auto inner = library_.compile(inner_method, options);
    auto outer = library_.compile(
        [&](Context& context, Tensor x) {
          ops::record_event(context, "x");
          Tensor y;
          {
            const auto side = ops::stream(context, "side");
            ops::wait_event(context, "x");
            y = x;
            for (int i = 0; i < 20; ++i) y = ops::add(context, y, x);
            y = ops::add(context, inner(y), y);
            ops::record_event(context, "y");
          }
          ops::wait_event(context, "y");
          return ops::add(context, y, x);
        },
        eager);
    for (int call = 0; call < 3; ++call) {
      const Tensor x = random_tensor(library_, {64, 64}, call);
      EXPECT_EQ(library_.to_floats(outer(x)), library_.to_floats(expected(x))) << name_of(mode);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, StreamsOfMethods, ::testing::Values(1, 2, 5));
#ifdef REPRISE_EMULATOR_DIR
INSTANTIATE_TEST_SUITE_P(Ascend, StreamsOfMethods, ::testing::Values(kAscend));
#endif

}  // namespace
}  // namespace reprise
