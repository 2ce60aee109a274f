#include <optional>
#include <stdexcept>

#include "api/library_test_support.h"
#include "ops/checks.h"
#include "reprise/cpu_kernel.h"

namespace reprise {
namespace {

void infer_same(const ops::OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = call.inputs[0].meta(); }

struct CopyArguments {
  const float* x;
  float* y;
};

void copy_elements(const void* block, int64_t first, int64_t last) {
  const auto& arguments = *static_cast<const CopyArguments*>(block);
  for (int64_t i = first; i < last; ++i) arguments.y[i] = arguments.x[i];
}

constexpr CpuKernel kCopy{"copy_elements", copy_elements};

void run_copy(const ops::OpCall& call) {
  launch_cpu_kernel(call, kCopy, call.inputs[0].shape().elements(),
                    CopyArguments{call.inputs[0].data_as<float>(), call.outputs[0].data_as<float>()});
}

/// What must not be done in a capture.
void run_synchronizing(const ops::OpCall& call) {
  call.stream->synchronize();
  run_copy(call);
}

ops::OpDef copying_op(std::string_view schema, ops::Traits traits, ops::OpDef::InferFunction infer,
                      void (*run)(const ops::OpCall&) = run_copy) {
  ops::OpDef op(schema, traits, infer, nullptr);
  op.set_kernel("cpu", {.run = run});
  return op;
}

Tensor call_op(Context& context, const char* op, const Tensor& x,
               std::source_location where = std::source_location::current()) {
  return ops::dispatch_call(context, op, {x}, {}, {}, where);
}

int line_behind(std::source_location where = std::source_location::current()) {
  return static_cast<int>(where.line()) + 1;
}

class BadMethods : public LibraryTest {
 protected:
  BadMethods() {
    library_.register_operator(copying_op("dropout(Tensor x) -> Tensor y", {.random = true}, infer_same));
    library_.register_operator(copying_op("to_host(Tensor x) -> Tensor y", {.syncs = true}, infer_same));
    library_.register_operator(copying_op("mystery(Tensor x) -> Tensor y", {}, nullptr));
    library_.register_operator(copying_op("sneaky(Tensor x) -> Tensor y", {}, infer_same, run_synchronizing));
  }

  /// The error of a method that does what it must not while `bad_` is set, with its line in this file. Afterwards the
  /// same method, and another one, give what they should.
  template <typename Callable>
  std::string error_of_method(ErrorCode code, Callable callable) {
    bad_ = true;
    auto method = library_.compile(callable, named("faulty", {"x"}));
    const Tensor x = random({3, 8});
    std::string error;
    for (int call = 0; call < 2; ++call) error = error_of(code, [&] { method(x); });
    EXPECT_EQ(method.variants(), 0);
    bad_ = false;
    auto other = library_.compile(silu_method());
    for (int call = 0; call < 2; ++call) EXPECT_EQ(floats(method(x)), floats(other(x)));
    EXPECT_EQ(method.counters().replays, 2);
    return error;
  }

  bool bad_ = true;
  int line_ = 0;
};

TEST_F(BadMethods, ReadingAnElementBreaksTheGraph) {
  const std::string error = error_of_method(ErrorCode::kGraphBreak, [this](Context& context, Tensor x) {
    line_ = line_behind();
    if (bad_ && context.item(ops::reshape(context, ops::slice(context, x, 0, 0, 1), {8})) > 0) return x;
    return ops::silu(context, x);
  });
  expect_text(error, fmt::format("bad_methods_test.cc:{}: item() cannot be part of a graph", line_));
  expect_text(error, "pass it as an argument");
}

TEST_F(BadMethods, ABranchOnATensorWorksEagerly) {
  MethodOptions options;
  options.mode = Mode::kEager;
  auto method = library_.compile(
      [](Context& context, Tensor x, Tensor flag) {
        return context.item(flag) > 0 ? ops::silu(context, x) : ops::add(context, x, x);
      },
      options);
  const Tensor x = constant({4}, 1);
  EXPECT_EQ(floats(method(x, constant({1}, -1)))[0], 2);
  EXPECT_LT(floats(method(x, integer_tensor(library_, {1}, {1})))[0], 1);
  error_of(ErrorCode::kInvalidArgument, [&] { method(x, x); });
  error_of(ErrorCode::kInvalidArgument, [&] { method(x, Tensor()); });
  EXPECT_EQ(floats(method(x, constant({1}, 0)))[0], 2);
}

TEST_F(BadMethods, OperatorsThatAGraphCannotHoldAreNamedWithTheirLine) {
  const std::vector<std::array<const char*, 3>> operators = {
      {"dropout", "it draws random numbers, which every replay would repeat", "draw them outside of the method"},
      {"to_host", "it reads device data on the host", "keep the value on the device"},
      {"mystery", "it has no shape function", "give the operator one"}};
  for (const auto& [op, reason, remedy] : operators) {
    const std::string error = error_of_method(ErrorCode::kGraphBreak, [this, op = op](Context& context, Tensor x) {
      line_ = line_behind();
      if (bad_) x = call_op(context, op, x);
      return ops::silu(context, x);
    });
    expect_text(error,
                fmt::format("bad_methods_test.cc:{}: operator '{}' cannot be part of a graph: {}", line_, op, reason));
    expect_text(error, remedy);
  }
}

TEST_F(BadMethods, AnUnknownOperatorIsAnsweredWithTheNearest) {
  const std::string error = error_of_method(ErrorCode::kNotFound, [this](Context& context, Tensor x) {
    return call_op(context, bad_ ? "sillu" : "silu", x);
  });
  expect_text(error, "silu");
}

TEST_F(BadMethods, AFaultyCallNamesItsLine) {
  const std::string error = error_of_method(ErrorCode::kInvalidArgument, [this](Context& context, Tensor x) {
    line_ = line_behind();
    if (bad_) ops::add(context, x, ops::slice(context, x, 1, 0, 4));
    return ops::silu(context, x);
  });
  expect_text(error, fmt::format("bad_methods_test.cc:{}: add: argument 'b'", line_));
}

TEST_F(BadMethods, TheNumberBehindASymbolicSizeIsNotKnown) {
  MethodOptions options = named("faulty", {"x"});
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile(
      [this](Context& context, Tensor x) {
        const int64_t rows = bad_ ? x.size(0) : 0;
        return rows > 100 ? x : ops::silu(context, x);
      },
      options);
  const std::string error = error_of(ErrorCode::kGraphBreak, [&] { method(random({3, 8})); });
  expect_text(error, "method 'faulty' of bad_methods_test.cc:");
  expect_text(error, "is not known while tracing");
  expect_text(error, "s0 is x.size(0)");
  expect_text(error, "branch with is_equal(), is_less() or is_at_most()");
  bad_ = false;
  method(random({3, 8}));
}

TEST_F(BadMethods, AScopeThatStaysOpenIsNamedWithItsLine) {
  std::optional<ops::StreamScope> scope;
  std::optional<ops::CoreLimitScope> limit;
  std::string error = error_of_method(ErrorCode::kGraphBreak, [&](Context& context, Tensor x) {
    line_ = line_behind();
    if (bad_) scope.emplace(context, "side", std::source_location::current());
    return ops::silu(context, x);
  });
  expect_text(error, fmt::format("bad_methods_test.cc:{}", line_));
  error = error_of_method(ErrorCode::kGraphBreak, [&](Context& context, Tensor x) {
    line_ = line_behind();
    if (bad_) limit.emplace(context, device::CoreLimit{1, 0}, std::source_location::current());
    return ops::silu(context, x);
  });
  expect_text(error, fmt::format("bad_methods_test.cc:{}", line_));
}

TEST_F(BadMethods, ValuesOfAnotherStreamNeedAnEvent) {
  const std::string error = error_of_method(ErrorCode::kInvalidArgument, [this](Context& context, Tensor x) {
    Tensor y = x;
    {
      const auto side = ops::stream(context, "side");
      line_ = line_behind();
      y = ops::silu(context, x);
      if (!bad_) ops::record_event(context, "y");
    }
    if (!bad_) ops::wait_event(context, "y");
    return bad_ ? ops::add(context, y, y) : y;
  });
  expect_text(error, fmt::format("bad_methods_test.cc:{}", line_));
  expect_text(error, "event");
}

TEST_F(BadMethods, AnEventThatNobodyRecordsIsNamed) {
  const std::string error = error_of_method(ErrorCode::kInvalidArgument, [this](Context& context, Tensor x) {
    line_ = line_behind();
    if (bad_) ops::wait_event(context, "never");
    return ops::silu(context, x);
  });
  expect_text(error, "never");
  expect_text(error, fmt::format("bad_methods_test.cc:{}", line_));
}

TEST_F(BadMethods, ResultsMustBeMadeByTheMethod) {
  const Tensor outside = random({3, 8}, 5);
  const std::string error = error_of_method(
      ErrorCode::kGraphBreak, [&](Context& context, Tensor x) { return bad_ ? outside : ops::silu(context, x); });
  expect_text(error, "method 'faulty' returns a tensor that no operator of it made");
  expect_text(error, "return a copy of it");
  expect_text(error, "method 'faulty' of bad_methods_test.cc:");
  error_of_method(ErrorCode::kGraphBreak,
                  [&](Context& context, Tensor x) { return bad_ ? Tensor() : ops::silu(context, x); });
}

TEST_F(BadMethods, WhatTheMethodThrowsComesThrough) {
  auto method = library_.compile([this](Context& context, Tensor x) {
    if (bad_) throw std::runtime_error("my own");
    return ops::silu(context, x);
  });
  const Tensor x = random({3, 8});
  EXPECT_THROW(method(x), std::runtime_error);
  bad_ = false;
  EXPECT_EQ(floats(method(x)), floats(library_.compile(silu_method())(x)));
}

TEST_F(BadMethods, AMethodThatFailsForAnotherSizeKeepsItsTraces) {
  auto method = library_.compile(
      [](Context& context, Tensor x) {
        return ops::add(context, x, ops::slice(context, ops::reshape(context, x, {x.shape()[0], 2, 4}), 1, 0, 1));
      },
      named("m", {"x"}));
  error_of(ErrorCode::kInvalidArgument, [&] { method(random({3, 8})); });
  auto fixed =
      library_.compile([](Context& context, Tensor x) { return ops::reshape(context, ops::silu(context, x), {24}); });
  const std::vector<float> expected = floats(fixed(random({3, 8})));
  for (int call = 0; call < 2; ++call) {
    expect_text(error_of(ErrorCode::kInvalidArgument, [&] { fixed(random({4, 8})); }), "reshape");
    EXPECT_EQ(floats(fixed(random({3, 8}))), expected);
  }
  EXPECT_EQ(fixed.variants(), 1);
}

TEST_F(BadMethods, ATensorOfATraceIsNoArgument) {
  Tensor leaked;
  auto method = library_.compile([&](Context& context, Tensor x) { return leaked = ops::silu(context, x); });
  const Tensor x = random({3, 8});
  method(x);
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(leaked); }), "argument 'a0' has no memory");
  // A compiled method is no part of another one's graph either.
  auto inner = library_.compile(silu_method());
  auto outer = library_.compile([&](Context&, Tensor y) { return inner(y); });
  expect_text(error_of(ErrorCode::kGraphBreak, [&] { outer(x); }), "is called inside of a method that is traced");
  EXPECT_EQ(floats(method(x)), floats(inner(x)));
  // Nor are its results constants of it, which its next call would overwrite.
  auto folded = library_.compile([&](Context& context, Tensor y) { return ops::add(context, y, inner(x)); });
  expect_text(error_of(ErrorCode::kGraphBreak, [&] { folded(x); }), "is called inside of a method that is traced");
  EXPECT_EQ(floats(method(x)), floats(inner(x)));
}

TEST_F(BadMethods, ArgumentsOfAnotherNumberOrKindAreRefused) {
  CompiledMethod method = library_.compile([](Context& context, Tensor x, Parameter, HostList, Dim, int64_t, double,
                                              bool, std::string) { return ops::silu(context, x); },
                                           named("m", {"x", "w", "list", "dim", "integer", "number", "flag", "text"}));
  const Tensor x = random({2, 4});
  const std::vector<int32_t> list = {1};
  const std::vector<compile::Argument> good = {
      x, Parameter{x}, std::span<const int32_t>(list), int64_t{2}, int64_t{3}, 0.5, true, std::string("t")};
  method(good);
  const std::array kinds = {"tensor", "parameter", "host list", "dimension", "integer", "float", "bool", "string"};
  const std::array names = {"x", "w", "list", "dim", "integer", "number", "flag", "text"};
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<compile::Argument> bad = good;
    bad[i] = i == 5 ? compile::Argument(int64_t{1}) : compile::Argument(0.5);
    expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(bad); }),
                fmt::format("m: argument '{}' is no {}", names[i], kinds[i]));
  }
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(std::span(good).first(7)); }),
              "m takes 8 arguments, 7 are given");
  const std::vector<compile::Argument> meta = [&] {
    std::vector<compile::Argument> arguments = good;
    arguments[0] = Tensor(TensorMeta(DType::kF32, {2, 4}), nullptr);
    return arguments;
  }();
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { method(meta); }), "argument 'x' has no memory");
  method(good);
  EXPECT_EQ(method.variants(), 1);
}

TEST_F(BadMethods, AFailingCaptureCostsThatKeyOnly) {
  MethodOptions options = named("m", {"x"});
  options.dynamic = Dynamic::kAlways;
  auto method = library_.compile([](Context& context, Tensor x) { return call_op(context, "sneaky", x); }, options);
  std::string log;
  for (const int64_t rows : {3, 3, 4}) {
    const Tensor x = random({rows, 8}, static_cast<int>(rows));
    log += log_of([&] { EXPECT_EQ(floats(method(x)), floats(x)); });
  }
  EXPECT_EQ(count_of(log, "capture of m (x.size(0) = 3) failed, it runs node by node"), 1) << log;
  EXPECT_EQ(count_of(log, "capture of m (x.size(0) = 4) failed"), 1) << log;
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureFailed), 3);
  EXPECT_EQ(method.counters().captures, 0);
  EXPECT_EQ(method.counters().node_runs, 3);
  auto other = library_.compile(silu_method());
  other(random({3, 8}));
  EXPECT_EQ(other.counters().replays, 1);
}

TEST_F(BadMethods, ListsThatAnUpdateCannotTakeAreErrorsOfThatCall) {
  for (const auto order : {device::UpdateOrder::kUpdateThenReplay, device::UpdateOrder::kReplayThenUpdate}) {
    MethodOptions options;
    options.update_order = order;
    auto method = library_.compile(
        [](Context& context, Tensor q, Tensor k_cache, Tensor v_cache, Tensor tables, HostList queries, HostList keys) {
          context.block_tables = tables;
          context.query_lengths = queries;
          context.kv_lengths = keys;
          return ops::paged_attention(context, q, k_cache, v_cache, 1.0);
        },
        options);
    const Tensor q = random({2, 2, 8}, 1);
    const Tensor k = random({4, 4, 1, 8}, 2);
    const Tensor v = random({4, 4, 1, 8}, 3);
    const Tensor tables = integer_tensor(library_, {2, 2}, {0, 1, 2, 3});
    const std::vector<int32_t> ones = {1, 1};
    const auto call = [&](std::vector<int32_t> keys) { return floats(method(q, k, v, tables, ones, keys)); };
    const std::vector<float> expected = call({5, 8});
    expect_text(error_of(ErrorCode::kInvalidArgument, [&] { call({5, 9}); }), "paged_attention");
    EXPECT_EQ(call({5, 8}), expected);
    EXPECT_NE(call({4, 8}), expected);
    EXPECT_EQ(method.counters().captures, 1);
  }
}

TEST_F(BadMethods, ContentsOfNothingAreAnError) {
  error_of(ErrorCode::kInvalidArgument, [&] { library_.to_bytes(Tensor()); });
  error_of(ErrorCode::kInvalidArgument, [&] { library_.to_floats(Tensor()); });
  error_of(ErrorCode::kInvalidArgument, [&] { library_.to_bytes(Tensor(TensorMeta(DType::kF32, {2}), nullptr)); });
  error_of(ErrorCode::kInvalidArgument, [&] { library_.from_floats({3}, std::vector<float>(2)); });
  error_of(ErrorCode::kInvalidArgument, [&] { library_.to_floats(library_.empty(TensorMeta(DType::kI8, {4}))); });
  error_of(ErrorCode::kInvalidArgument, [] { Library::open("tpu"); });
  error_of(ErrorCode::kInvalidArgument, [] { Library::open("cpu", -1); });
  error_of(ErrorCode::kInvalidArgument, [&] { library_.compile(silu_method()).graph(0); });
}

}  // namespace
}  // namespace reprise
