#include "reprise/compile.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/swiglu.h"

namespace reprise {
namespace {

std::vector<float> ramp(int64_t count, float step = 0.25f) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(step * static_cast<float>(i % 17) - 1.0f);
  return values;
}

Tensor tensor(const Library& library, const Shape& shape) { return library.from_floats(shape, ramp(shape.elements())); }

auto norm_of_two() {
  return [](Context& context, Tensor x, Tensor y, Parameter weight) {
    return ops::rms_norm(context, ops::add(context, x, y), weight.tensor, 1e-6);
  };
}

}  // namespace

TEST(Compile, EveryModeGivesTheSameBits) {
  Library library = Library::open("cpu", 2);
  const Tensor weight = tensor(library, {64});
  const Tensor x = tensor(library, {5, 64});
  const Tensor y = tensor(library, {5, 64});
  std::vector<float> expected;
  for (const Mode mode : {Mode::kEager, Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    MethodOptions options;
    options.mode = mode;
    options.splitting_ops = {"add"};
    auto method = library.compile(norm_of_two(), options);
    for (int call = 0; call < 3; ++call) {
      const std::vector<float> result = library.to_floats(method(x, y, weight));
      if (expected.empty()) expected = result;
      EXPECT_EQ(result, expected) << name_of(mode) << " call " << call;
    }
    EXPECT_EQ(method.counters().replays, mode == Mode::kFull || mode == Mode::kPiecewise ? 3 : 0);
  }
}

TEST(Compile, IsTracedAndCapturedOnce) {
  Library library = Library::open("cpu", 1);
  int runs = 0;
  auto method = library.compile([&runs](Context& context, Tensor x) {
    ++runs;
    return ops::silu(context, x);
  });
  for (int call = 0; call < 4; ++call) method(tensor(library, {3, 8}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(method.counters().traces, 1);
  EXPECT_EQ(method.counters().captures, 1);
  EXPECT_EQ(method.counters().replays, 4);
}

TEST(Compile, ASizeThatChangesBecomesSymbolic) {
  Library library = Library::open("cpu", 1);
  auto method = library.compile([](Context& context, Tensor x) { return ops::silu(context, x); });
  for (const int64_t rows : {4, 6, 7, 4, 1, 6}) {
    EXPECT_EQ(method(tensor(library, {rows, 8})).size(0), rows);
  }
  // 4; any other; 1 is special.
  EXPECT_EQ(method.variants(), 3);
  EXPECT_EQ(method.counters().recompiles.at("size"), 2);
  EXPECT_NE(method.guards_text(1).find("2 <= a0.size(0)"), std::string::npos) << method.guards_text(1);
  EXPECT_EQ(method.counters().replays, 6);
}

}  // namespace reprise
