#include "api/library_test_support.h"

namespace reprise {
namespace {

class Cat : public LibraryTest {
 protected:
  /// Whether the parts of the method's cat are made in its result; the contents are those of the eager mode with and
  /// without the pass, for two sizes.
  template <typename Callable>
  bool is_placed(Callable callable) {
    bool placed = false;
    for (const bool enabled : {true, false}) {
      MethodOptions options;
      options.compile.passes.remove_cat_ops = enabled;
      options.dynamic = Dynamic::kAlways;
      auto method = library_.compile(callable, options);
      options.mode = Mode::kEager;
      auto eager = library_.compile(callable, options);
      for (const int64_t rows : {3, 5}) {
        const Tensor x = random({rows, 8}, 1);
        const Tensor y = random({rows, 8}, 2);
        const std::vector<Tensor> results = method(x, y);
        const std::vector<Tensor> expected = eager(x, y);
        for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(floats(results[i]), floats(expected[i])) << i;
      }
      for (const graph::NodeId id : method.graph().order()) {
        const graph::Node& node = method.graph().node(id);
        if (node.op->name() != "cat") continue;
        EXPECT_TRUE(enabled || !std::get<bool>(node.attributes[1]));
        placed = placed || std::get<bool>(node.attributes[1]);
      }
      if (enabled) explanation_ = method.explain();
    }
    return placed;
  }

  std::string explanation_;
};

std::vector<Tensor> cat(Context& context, std::initializer_list<Tensor> parts, int64_t axis = 0) {
  return {ops::cat(context, std::vector<Tensor>(parts), axis)};
}

TEST_F(Cat, PartsAreMadeWhereTheyLie) {
  EXPECT_TRUE(is_placed([](Context& context, Tensor x, Tensor y) {
    return cat(context, {ops::silu(context, x), ops::silu(context, y)});
  }));
}

TEST_F(Cat, TheOrderInWhichPartsAreMadeDoesNotMatter) {
  EXPECT_TRUE(is_placed([](Context& context, Tensor x, Tensor y) {
    const Tensor last = ops::silu(context, y);
    const Tensor first = ops::silu(context, x);
    return cat(context, {first, last});
  }));
}

TEST_F(Cat, PartsOfDifferentOperatorsAndUsesBesideTheCat) {
  EXPECT_TRUE(is_placed([](Context& context, Tensor x, Tensor y) {
    const Tensor sum = ops::add(context, x, y);
    const Tensor product = ops::mul(context, sum, y);
    std::vector<Tensor> results = cat(context, {sum, product, ops::reciprocal(context, product)});
    results.push_back(ops::silu(context, sum));
    return results;
  }));
}

TEST_F(Cat, AnotherAxisIsCopied) {
  EXPECT_FALSE(is_placed([](Context& context, Tensor x, Tensor y) {
    return cat(context, {ops::silu(context, x), ops::silu(context, y)}, 1);
  }));
  expect_text(explanation_, "it is along axis 1");
}

TEST_F(Cat, PartsThatNoOperatorMakesAreCopied) {
  EXPECT_FALSE(
      is_placed([](Context& context, Tensor x, Tensor y) { return cat(context, {ops::silu(context, x), y}); }));
  expect_text(explanation_, "%a1 is not a result of its own");
  EXPECT_FALSE(is_placed([](Context& context, Tensor x, Tensor y) {
    const Tensor both = ops::add(context, x, y);
    return cat(context, {ops::reshape(context, both, both.shape()), ops::slice(context, both, 1, 0, 8), both});
  }));
}

TEST_F(Cat, APartThatComesTwiceOrInTwoCatsIsCopied) {
  EXPECT_FALSE(is_placed([](Context& context, Tensor x, Tensor) {
    const Tensor y = ops::silu(context, x);
    return cat(context, {y, y});
  }));
  expect_text(explanation_, "comes twice");
  EXPECT_TRUE(is_placed([](Context& context, Tensor x, Tensor y) {
    const Tensor shared = ops::silu(context, x);
    std::vector<Tensor> results = cat(context, {shared, ops::silu(context, y)});
    results.push_back(cat(context, {ops::add(context, x, y), shared})[0]);
    return results;
  })) << "one of the two";
  expect_text(explanation_, "is also placed in");
}

}  // namespace
}  // namespace reprise
