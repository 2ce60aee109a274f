#include "ops/scopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/reference_dispatcher.h"

namespace reprise::ops {
namespace {

using ::testing::HasSubstr;

/// The Error that a call throws.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

device::CoreLimit seen_limit;
std::string seen_stream;
OpKernel honest_silu;

void look_at_stream(const OpCall& call) {
  seen_limit = call.stream->core_limit();
  seen_stream = call.stream->options().name;
  honest_silu.run(call);
}

class EagerScopes : public ::testing::Test {
 protected:
  EagerScopes() {
    kernels::cpu::register_cpu_kernels(registry_);
    honest_silu = *registry_.get("silu").kernel("cpu");
    OpKernel kernel = honest_silu;
    kernel.run = look_at_stream;
    registry_.get("silu").set_kernel("cpu", kernel);
    device_ = device::cpu::create_cpu_device({.threads = 4});
    stream_ = device_->create_stream({0, "main"});
    dispatcher_.emplace(registry_, *device_, *stream_);
    context_.emplace(*dispatcher_);
    const TensorMeta meta(DType::kF32, {64});
    x_ = Tensor(meta, device_->allocate(meta.contiguous_bytes()));
    for (int i = 0; i < 64; ++i) x_.data_as<float>()[i] = static_cast<float>(i) / 16.0f - 2.0f;
  }

  /// Two streams that use each other's results.
  Tensor method(ForwardContext& context) const {
    Tensor x = add(context, x_, x_);
    record_event(context, "x_ready");
    Tensor y;
    {
      const auto side = stream(context, "side");
      wait_event(context, "x_ready");
      y = mul(context, x, x);
      record_event(context, "y_ready");
    }
    const Tensor z = silu(context, x);
    wait_event(context, "y_ready");
    return add(context, z, y);
  }

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::optional<EagerDispatcher> dispatcher_;
  std::optional<ForwardContext> context_;
  Tensor x_;
};

TEST_F(EagerScopes, ResultsOfSideStreamsAreThereOnceTheOwnStreamIsDone) {
  ReferenceDispatcher reference(registry_);
  ForwardContext plain(reference);
  const Tensor expected = mul(plain, x_, x_);
  for (int step = 0; step < 3; ++step) {
    Tensor y;
    {
      const auto side = stream(*context_, "side");
      y = mul(*context_, x_, x_);
    }
    dispatcher_->finish_method();
    stream_->synchronize();
    for (int i = 0; i < 64; ++i) ASSERT_EQ(y.data_as<float>()[i], expected.data_as<float>()[i]);
  }
}

TEST_F(EagerScopes, AMethodOfTwoStreamsGivesWhatTheReferenceGivesInProgramOrder) {
  ReferenceDispatcher reference(registry_);
  ForwardContext plain(reference);
  const Tensor expected = method(plain);
  const Tensor y = method(*context_);
  dispatcher_->finish_method();
  stream_->synchronize();
  for (int i = 0; i < 64; ++i) ASSERT_FLOAT_EQ(y.data_as<float>()[i], expected.data_as<float>()[i]);
}

TEST_F(EagerScopes, TheInnermostCoreLimitHoldsOnWhateverStreamIsCurrentAndIsTakenBack) {
  stream_->set_core_limit({3, 3});
  const auto limit = [&] {
    silu(*context_, x_);
    return seen_limit;
  };
  {
    auto outer = limit_core_num(*context_, 2);
    EXPECT_EQ(limit(), (device::CoreLimit{2, 0}));
    {
      const auto side = stream(*context_, "side");
      EXPECT_EQ(limit(), (device::CoreLimit{2, 0}));
      EXPECT_EQ(seen_stream, "side");
      const auto inner = limit_core_num(*context_, 1, 1);
      EXPECT_EQ(limit(), (device::CoreLimit{1, 1}));
    }
    EXPECT_EQ(limit(), (device::CoreLimit{2, 0}));
    EXPECT_EQ(seen_stream, "main");
    outer.close();
    EXPECT_EQ(limit(), (device::CoreLimit{3, 3}));
    outer.close();  // again: nothing
  }
  {
    // Streams that were limited once are not any more.
    const auto side = stream(*context_, "side");
    EXPECT_EQ(limit(), (device::CoreLimit{3, 3}));
  }
  dispatcher_->finish_method();
}

TEST_F(EagerScopes, LimitsThatTheDeviceCannotHoldAreRefusedWithThePlace) {
  for (const auto& [matrix, vector] : {std::pair(0, 0), {-1, 0}, {5, 0}, {1, -1}, {1, 5}}) {
    const Error error = error_of([&, m = matrix, v = vector] { const auto scope = limit_core_num(*context_, m, v); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("scopes_test.cc:"));
    EXPECT_THAT(error.what(), HasSubstr("the device has 4"));
  }
  dispatcher_->finish_method();
}

TEST_F(EagerScopes, AWaitForAnEventThatTheMethodHasNotRecordedIsRefused) {
  const Error unknown = error_of([&] { wait_event(*context_, "ready"); });
  EXPECT_EQ(unknown.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.what(), HasSubstr("'ready'"));
  EXPECT_THAT(unknown.what(), HasSubstr("scopes_test.cc:"));
  record_event(*context_, "ready");
  wait_event(*context_, "ready");
  dispatcher_->finish_method();
  // What an earlier step recorded does not count.
  EXPECT_EQ(error_of([&] { wait_event(*context_, "ready"); }).code(), ErrorCode::kInvalidArgument);
}

TEST_F(EagerScopes, AScopeThatOutlivesTheMethodIsNamedWithItsLineAndEndsWithoutEffect) {
  const auto late =
      std::make_unique<CoreLimitScope>(*context_, device::CoreLimit{1, 0}, std::source_location::current());
  const Error error = error_of([&] { dispatcher_->finish_method(); });
  EXPECT_EQ(error.code(), ErrorCode::kGraphBreak);
  EXPECT_THAT(error.what(), HasSubstr("scopes_test.cc:"));
  EXPECT_THAT(error.what(), HasSubstr("still open"));
  EXPECT_EQ(stream_->core_limit(), device::CoreLimit{});
  dispatcher_->finish_method();  // the next one is not concerned
  dispatcher_.reset();
  // `late` is destroyed after the dispatcher.
}

TEST_F(EagerScopes, ScopesThatAreClosedOutOfOrderAreAnErrorAtTheCloseOrAtTheEnd) {
  {
    auto outer = stream(*context_, "a");
    const auto inner = limit_core_num(*context_, 1);
    const Error error = error_of([&] { outer.close(); });
    EXPECT_EQ(error.code(), ErrorCode::kGraphBreak);
    EXPECT_THAT(error.what(), HasSubstr("closed before the core limit scope"));
  }
  dispatcher_->finish_method();
  auto outer = std::make_unique<StreamScope>(*context_, "a", std::source_location::current());
  auto inner = std::make_unique<CoreLimitScope>(*context_, device::CoreLimit{1, 0}, std::source_location::current());
  outer.reset();
  inner.reset();
  EXPECT_EQ(error_of([&] { dispatcher_->finish_method(); }).code(), ErrorCode::kGraphBreak);
  dispatcher_->finish_method();
}

TEST_F(EagerScopes, NamesThatAGraphCouldNotHoldAreRefused) {
  EXPECT_EQ(error_of([&] { const auto scope = stream(*context_, ""); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { const auto scope = stream(*context_, "a b"); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { record_event(*context_, ":fork"); }).code(), ErrorCode::kInvalidArgument);
  dispatcher_->finish_method();
}

TEST_F(EagerScopes, AMethodThatThrowsInsideItsScopesLeavesTheNextOneUntouched) {
  const auto fail = [&] {
    const auto side = stream(*context_, "side");
    const auto limit = limit_core_num(*context_, 1);
    mul(*context_, x_, x_);
    throw Error(ErrorCode::kInternal, "half way");
  };
  EXPECT_EQ(error_of(fail).message(), "half way");
  silu(*context_, x_);
  EXPECT_EQ(seen_stream, "main");
  EXPECT_EQ(seen_limit, device::CoreLimit{});
  dispatcher_->finish_method();
}

TEST(Scopes, ADispatcherWithoutThemRefuses) {
  class Plain final : public Dispatcher {
    void dispatch(std::string_view, std::span<const Tensor>, std::span<const HostList>, std::span<const Attribute>,
                  std::span<Tensor>, std::source_location) override {}
  } dispatcher;
  ForwardContext context(dispatcher);
  EXPECT_EQ(error_of([&] { record_event(context, "e"); }).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace reprise::ops
