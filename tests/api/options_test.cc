#include "reprise/options.h"

#include "api/library_test_support.h"

namespace reprise {
namespace {

class NamedOptions : public testing::Test {
 protected:
  Library library_ = Library::open("cpu", 1);

  auto compile(const MethodOptions& options) {
    return library_.compile([](Context& context, Tensor x) { return ops::silu(context, x); }, options);
  }
};

}  // namespace

TEST_F(NamedOptions, SetByNameTheyWorkLikeTheMembers) {
  MethodOptions options;
  options.dynamic = Dynamic::kAlways;
  set_option(options.compile, "capture_limit", 1);
  set_option(options.compile, "clone_output", true);
  auto method = compile(options);
  const Tensor first = method(random_tensor(library_, {2, 4}, 1));
  const std::vector<std::byte> before = bits(library_, first);
  method(random_tensor(library_, {2, 4}, 2));
  EXPECT_EQ(bits(library_, first), before) << "clone_output keeps results";
  method(random_tensor(library_, {3, 4}, 1));
  EXPECT_EQ(method.counters().captures, 1);
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), 1);

  set_option(options.compile, "force_eager", true);
  auto eager = compile(options);
  EXPECT_EQ(bits(library_, eager(random_tensor(library_, {2, 4}, 1))), before);
  EXPECT_EQ(eager.counters().captures, 0);
}

TEST_F(NamedOptions, AWrongOneIsATypedErrorAndChangesNothing) {
  MethodOptions options;
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { set_option(options.compile, "clone_output", 1); }),
              "option clone_output is 1 (an integer), must be true or false");
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { set_option(options.compile, "clone_outputs", true); }),
              "did you mean 'clone_output'?");
  expect_text(error_of(ErrorCode::kUnsupported, [&] { set_option(options.compile, "deadlock_check", true); }),
              "option deadlock_check is not built yet");
  EXPECT_FALSE(options.compile.clone_output);
}

}  // namespace reprise
