#include "api/library_test_support.h"

namespace reprise {
namespace {

using Names = std::vector<std::string>;

class InPlace : public LibraryTest {
 protected:
  /// The results of a method and what its arguments are then, in the mode without a graph.
  template <typename Callable, typename... Tensors>
  std::vector<std::vector<float>> eager(Callable callable, const Tensors&... arguments) {
    MethodOptions options;
    options.mode = Mode::kEager;
    return call(library_.compile(callable, options), arguments...);
  }

  /// The same of a compiled method, called once more behind the first call with the same contents.
  template <typename Method, typename... Tensors>
  std::vector<std::vector<float>> call(Method method, const Tensors&... arguments) {
    std::vector<Tensor> copies = {copy(arguments)...};
    std::vector<std::vector<float>> contents;
    const std::vector<compile::Argument> list(copies.begin(), copies.end());
    for (const Tensor& result : static_cast<CompiledMethod&>(method)(list)) contents.push_back(floats(result));
    for (const Tensor& argument : copies) contents.push_back(floats(argument));
    return contents;
  }

  Tensor copy(const Tensor& tensor) const { return library_.from_floats(tensor.shape(), floats(tensor)); }
};

/// An intermediate that mul and silu may overwrite, and an input that add writes in the end.
auto chain() {
  return [](Context& context, Tensor x, Tensor y) {
    Tensor t = ops::add(context, x, y);
    t = ops::mul(context, t, y);
    t = ops::silu(context, t);
    ops::copy_(context, x, ops::add(context, x, t));
    return t;
  };
}

TEST_F(InPlace, EachSwitchChangesOnlyItsOwnOperators) {
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  const auto expected = eager(chain(), x, y);
  const auto ops = [&](bool intermediates, bool inputs) {
    MethodOptions options;
    options.compile.passes.inplace_pass = intermediates;
    options.compile.passes.input_inplace_pass = inputs;
    auto method = library_.compile(chain(), options);
    EXPECT_EQ(call(method, x, y), expected) << intermediates << inputs;
    return op_names(method);
  };
  EXPECT_EQ(ops(true, true), (Names{"add", "mul_", "silu_", "add_"}));
  EXPECT_EQ(ops(false, true), (Names{"add", "mul", "silu", "add_"}));
  EXPECT_EQ(ops(true, false), (Names{"add", "mul_", "silu_", "add", "copy_"}));
  EXPECT_EQ(ops(false, false), (Names{"add", "mul", "silu", "add", "copy_"}));
}

TEST_F(InPlace, ASliceOfAnInputIsWrittenWithEverySetting) {
  const auto method_of_slice = [](Context& context, Tensor x, Tensor y) {
    const Tensor part = ops::slice(context, x, 1, 2, 6);
    ops::copy_(context, part, ops::add(context, part, y));
    return ops::silu(context, x);
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 4}, 2);
  const auto expected = eager(method_of_slice, x, y);
  for (const bool intermediates : {true, false}) {
    for (const bool inputs : {true, false}) {
      MethodOptions options;
      options.compile.passes.inplace_pass = intermediates;
      options.compile.passes.input_inplace_pass = inputs;
      auto method = library_.compile(method_of_slice, options);
      EXPECT_EQ(call(method, x, y), expected);
      EXPECT_EQ(op_names(method), (Names{"slice", "add", "copy_", "silu"}));
    }
  }
}

TEST_F(InPlace, AViewOfAnIntermediateIsOverwritten) {
  const auto viewed = [](Context& context, Tensor x, Tensor y) {
    const Tensor sum = ops::add(context, x, y);
    return ops::reshape(context, ops::silu(context, ops::reshape(context, sum, {6, 4})), {24});
  };
  const Tensor x = random({3, 8}, 1);
  auto method = library_.compile(viewed);
  EXPECT_EQ(call(method, x, x), eager(viewed, x, x));
  EXPECT_EQ(op_names(method), (Names{"add", "reshape", "silu_", "reshape"}));
}

TEST_F(InPlace, WhatIsUsedAgainThroughAViewIsNot) {
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  const auto base_used = [](Context& context, Tensor a, Tensor b) {
    const Tensor sum = ops::add(context, a, b);
    const Tensor left = ops::silu(context, ops::slice(context, sum, 1, 0, 4));
    return ops::add(context, ops::slice(context, sum, 1, 2, 6), left);
  };
  auto method = library_.compile(base_used);
  EXPECT_EQ(call(method, x, y), eager(base_used, x, y));
  expect_text(method.explain(), "in_place left alone");
  EXPECT_EQ(op_names(method)[2], "silu");
  const auto returned = [](Context& context, Tensor a, Tensor b) {
    const Tensor sum = ops::add(context, a, b);
    return std::array<Tensor, 2>{ops::silu(context, sum), ops::reshape(context, sum, {24})};
  };
  auto both = library_.compile(returned);
  EXPECT_EQ(call(both, x, y), eager(returned, x, y));
  const Names names = op_names(both);
  EXPECT_EQ(std::count(names.begin(), names.end(), "silu"), 1) << both.explain();
}

TEST_F(InPlace, OneInputIsWrittenSeveralTimes) {
  const auto twice = [](Context& context, Tensor x, Tensor y) {
    ops::copy_(context, x, ops::add(context, x, y));
    ops::copy_(context, x, ops::mul(context, x, y));
    const Tensor before = ops::copy(context, x);
    ops::copy_(context, x, ops::silu(context, x));
    return before;
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  auto method = library_.compile(twice);
  EXPECT_EQ(call(method, x, y), eager(twice, x, y));
  EXPECT_EQ(op_names(method), (Names{"add_", "mul_", "copy", "silu_"}));
}

TEST_F(InPlace, AnInputThatIsReadInBetweenIsWrittenAtTheEnd) {
  const auto read_between = [](Context& context, Tensor x, Tensor y) {
    const Tensor next = ops::add(context, x, y);
    const Tensor gate = ops::mul(context, x, y);
    ops::copy_(context, x, next);
    return gate;
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  auto method = library_.compile(read_between);
  EXPECT_EQ(call(method, x, y), eager(read_between, x, y));
  EXPECT_EQ(op_names(method), (Names{"add", "mul", "copy_"}));
  expect_text(method.explain(), "uses %a0 in between");
}

TEST_F(InPlace, AValueThatIsWrittenAndReturnedKeepsMemoryOfItsOwn) {
  const auto both = [](Context& context, Tensor x, Tensor y) {
    const Tensor next = ops::add(context, x, y);
    ops::copy_(context, x, next);
    return next;
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  auto method = library_.compile(both);
  EXPECT_EQ(call(method, x, y), eager(both, x, y));
  const Tensor state = copy(x);
  EXPECT_NE(method(state, y).data(), state.data());
}

TEST_F(InPlace, AnotherViewOfTheWrittenInputIsReturned) {
  const auto view_returned = [](Context& context, Tensor x, Tensor y) {
    ops::copy_(context, x, ops::add(context, x, y));
    return ops::reshape(context, x, {4, 6});
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  auto method = library_.compile(view_returned);
  EXPECT_EQ(call(method, x, y), eager(view_returned, x, y));
  const Tensor state = copy(x);
  const Tensor result = method(state, y);
  EXPECT_EQ(result.data(), state.data());
  EXPECT_EQ(floats(result), floats(state));
}

TEST_F(InPlace, APlainCopyIntoAnInputStays) {
  const auto plain = [](Context& context, Tensor x, Tensor y) {
    ops::copy_(context, x, y);
    return ops::add(context, x, y);
  };
  const Tensor x = random({3, 8}, 1);
  const Tensor y = random({3, 8}, 2);
  auto method = library_.compile(plain);
  EXPECT_EQ(call(method, x, y), eager(plain, x, y));
  EXPECT_EQ(op_names(method), (Names{"copy_", "add"}));
}

TEST_F(InPlace, ACopyOntoItselfIsRefusedWithItsLine) {
  int line = 0;
  auto method = library_.compile([&](Context& context, Tensor x) {
    line = static_cast<int>(std::source_location::current().line()) + 1;
    ops::copy_(context, x, x);
    return ops::silu(context, x);
  });
  const Tensor x = random({3, 8});
  const std::string error = error_of(ErrorCode::kInvalidArgument, [&] { method(x); });
  expect_text(error, fmt::format("in_place_test.cc:{}: copy_ mutates its argument 'to'", line));
  expect_text(error, "method 'method'");
}

TEST_F(InPlace, ACacheThatIsWrittenThroughAViewIsWrittenWhereItLies) {
  const auto write_rows = [](Context& context, Tensor cache, Tensor rows, Tensor updates) {
    const Tensor flat = ops::reshape(context, cache, {8, 4});
    const Tensor next = ops::scatter_rows(context, flat, rows, updates);
    ops::copy_(context, cache, ops::reshape(context, next, {4, 2, 4}));
    return std::vector<Tensor>{};
  };
  const Tensor rows = integer_tensor(library_, {2}, {1, 6});
  const Tensor updates = random({2, 4}, 2);
  std::vector<float> expected = numbers(32, 1);
  std::copy_n(numbers(8, 2).begin(), 4, expected.begin() + 4);
  std::copy_n(numbers(8, 2).begin() + 4, 4, expected.begin() + 24);
  for (const bool enabled : {true, false}) {
    MethodOptions options;
    options.compile.passes.input_inplace_pass = enabled;
    auto method = library_.compile(write_rows, options);
    const Tensor cache = random({4, 2, 4}, 1);
    method(cache, rows, updates);
    EXPECT_EQ(floats(cache), expected);
    const Names names = op_names(method);
    EXPECT_EQ(std::count(names.begin(), names.end(), "copy_"), enabled ? 0 : 1);
    EXPECT_EQ(std::count(names.begin(), names.end(), "scatter_rows_"), enabled ? 1 : 0);
  }
}

}  // namespace
}  // namespace reprise
