// A compiled method whose operator chooses its kernel by the lengths.
#include <gtest/gtest.h>

#include "base/log.h"
#include "harness/switching_operator.h"
#include "reprise/compile.h"

namespace reprise {
namespace {

auto scaled_twice() {
  return [](Context& context, Tensor x, HostList query_lengths, HostList kv_lengths) {
    return switching::length_scale(context, switching::length_scale(context, x, query_lengths, kv_lengths),
                                   query_lengths, kv_lengths);
  };
}

bool fails = false;
void run_unless_failing(const ops::OpCall& call) {
  if (fails) throw Error(ErrorCode::kInternal, "the launch was made to fail");
  switching::run(call);
}

}  // namespace

TEST(Choices, ACompiledMethodCapturesBesideWhatItHasForOtherChoices) {
  set_log_level(LogLevel::kOff);
  Library library = Library::open("cpu", 1);
  library.register_operator(switching::make_operator());
  const Tensor x = library.from_floats({1, 3}, std::vector<float>{1.5f, -2.0f, 0.25f});
  const std::vector<int32_t> one = {1};
  MethodOptions eager_options;
  eager_options.mode = Mode::kEager;
  auto eager = library.compile(scaled_twice(), eager_options);
  auto method = library.compile(scaled_twice());
  MethodOptions limited_options;
  limited_options.compile.capture_limit = 1;
  auto limited = library.compile(scaled_twice(), limited_options);
  for (const int32_t length : {127, 128, 129, 127, 128}) {
    const std::vector<int32_t> lengths = {length};
    const std::vector<float> expected = library.to_floats(eager(x, one, lengths));
    EXPECT_EQ(library.to_floats(method(x, one, lengths)), expected) << length;
    EXPECT_EQ(library.to_floats(limited(x, one, lengths)), expected) << length;
  }
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(method.counters().captures, 1);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kChoiceChanged), 1);
  EXPECT_EQ(method.counters().replays, 5);
  EXPECT_EQ(limited.counters().replays, 2);
  EXPECT_EQ(limited.counters().fallen_back(FallbackReason::kCaptureLimit), 3);
}

TEST(Choices, GraphsForOtherChoicesCountForTheLimitOfAllKeys) {
  Library library = Library::open("cpu", 1);
  library.register_operator(switching::make_operator());
  MethodOptions options;
  options.compile.capture_limit = 3;
  options.dynamic = Dynamic::kAlways;
  auto method = library.compile(scaled_twice(), options);
  testing::internal::CaptureStderr();
  for (const int32_t rows : {2, 3, 4}) {
    for (const int32_t length : {5, 200}) {
      const Tensor x = library.from_floats({rows, 1}, std::vector<float>(static_cast<size_t>(rows), 1));
      method(x, std::vector<int32_t>(static_cast<size_t>(rows), 1),
             std::vector<int32_t>(static_cast<size_t>(rows), length));
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(method.captured_graphs(), 3) << "both choices of two rows, and one of three";
  EXPECT_EQ(method.counters().fallen_back(FallbackReason::kCaptureLimit), 3);
  EXPECT_NE(log.find("what kernels choose for the lists (1 graphs more than keys)"), std::string::npos) << log;
}

TEST(Choices, AGraphWhoseUpdateFailedIsCapturedAgain) {
  Library library = Library::open("cpu", 1);
  library.register_operator(switching::make_operator(switching::plan, run_unless_failing));
  auto method = library.compile(scaled_twice());
  const Tensor x = library.from_floats({1, 3}, std::vector<float>{1.5f, -2.0f, 0.25f});
  const auto call = [&](int32_t length) {
    return library.to_floats(method(x, std::vector<int32_t>{1}, std::vector<int32_t>{length}));
  };
  EXPECT_EQ(call(2)[0], 6);
  fails = true;
  EXPECT_THROW(call(3), Error);
  fails = false;
  EXPECT_EQ(call(4)[0], 24);
  EXPECT_EQ(call(5)[0], 37.5);
  EXPECT_EQ(method.counters().recaptured(RecaptureReason::kUpdateFailed), 1);
  EXPECT_EQ(method.counters().captures, 1);
}

}  // namespace reprise
