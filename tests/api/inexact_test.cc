// Inexact fusions change a bit now and then: within rounding of the method's own calls, and the same bits in every mode
// that runs the optimised graph.
#include <gtest/gtest.h>

#include <cmath>

#include "api/library_test_support.h"

namespace reprise {
namespace {

/// The scale of a quantisation, taken through its reciprocal twice.
Tensor scaled(Context& context, const Tensor& x, const Tensor& y) {
  const Tensor twice = ops::reciprocal(context, ops::reciprocal(context, y));
  return ops::mul(context, ops::silu(context, x), twice);
}

std::vector<float> run(Library& library, Mode mode, bool inexact, const Tensor& x, const Tensor& y) {
  MethodOptions options;
  options.mode = mode;
  options.splitting_ops = {"silu"};
  options.compile.passes.inexact_fusions = inexact;
  auto method = library.compile(scaled, options);
  method(x, y);
  return library.to_floats(method(x, y));
}

}  // namespace

TEST(InexactFusions, AreOffUnlessAskedFor) {
  Library library = Library::open("cpu", 1);
  const Tensor x = random_tensor(library, {9, 129}, 1);
  const Tensor y = random_tensor(library, {9, 129}, 2);
  const std::vector<float> eager = run(library, Mode::kEager, false, x, y);
  for (const Mode mode : {Mode::kAotEager, Mode::kForceEager, Mode::kFull, Mode::kPiecewise}) {
    EXPECT_EQ(run(library, mode, false, x, y), eager) << name_of(mode);
  }
}

TEST(InexactFusions, GiveTheSameBitsFromForceEagerDownAndNearlyTheEagerOnes) {
  Library library = Library::open("cpu", 2);
  const Tensor x = random_tensor(library, {9, 129}, 1);
  const Tensor y = random_tensor(library, {9, 129}, 2);
  const std::vector<float> eager = run(library, Mode::kEager, true, x, y);
  EXPECT_EQ(run(library, Mode::kAotEager, true, x, y), eager) << "no pass runs there";
  const std::vector<float> optimised = run(library, Mode::kForceEager, true, x, y);
  EXPECT_NE(optimised, eager) << "1/(1/y) is y";
  for (size_t i = 0; i < eager.size(); ++i) ASSERT_NEAR(optimised[i], eager[i], 4e-7f * std::abs(eager[i])) << i;
  for (const Mode mode : {Mode::kFull, Mode::kPiecewise}) {
    EXPECT_EQ(run(library, mode, true, x, y), optimised) << name_of(mode);
  }
}

}  // namespace reprise
