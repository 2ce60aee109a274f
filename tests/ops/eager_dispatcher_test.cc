#include "ops/eager_dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/host_tensor.h"
#include "ops/linear.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Host memory serves as device memory here: the CPU runs on both.
class EagerDispatcherTest : public ::testing::Test {
 protected:
  EagerDispatcherTest() { kernels::cpu::register_cpu_kernels(registry_); }

  template <typename Function>
  Error error_of(Function function) {
    try {
      function();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ErrorCode::kInternal, "nothing was thrown");
  }

  // Outlives the stream, whose last work runs when it ends.
  Tensor x_ = float_tensor(kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 2});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
};

TEST_F(EagerDispatcherTest, RunsOperatorsInTheOrderOfTheStream) {
  const Tensor twice = add(context_, x_, x_);
  const Tensor last = slice(context_, twice, 1, 1, 3);
  const Tensor product = mul(context_, last, slice(context_, x_, 1, 1, 3));
  stream_->synchronize();
  EXPECT_THAT(values_of(product), ElementsAre(8, 18, 50, 72));
  EXPECT_EQ(dispatcher_.dispatches(), 4);
}

TEST_F(EagerDispatcherTest, ViewsLaunchAndAllocateNothing) {
  const device::DeviceCounters before = device_->counters();
  const Tensor view = slice(context_, reshape(context_, x_, {3, 2}), 0, 1, 2);
  EXPECT_EQ(view.data(), x_.data_as<float>() + 2);
  EXPECT_EQ(device_->counters().launches, before.launches);
  EXPECT_EQ(device_->counters().allocations, before.allocations);
  add(context_, x_, x_);
  EXPECT_EQ(device_->counters().launches, before.launches + 1);
}

TEST_F(EagerDispatcherTest, FindsOperatorsWhoseNamesShareAnAddress) {
  char name[] = "add";
  const Tensor inputs[] = {x_, x_};
  Tensor outputs[1];
  dispatcher_.dispatch(name, inputs, {}, {}, outputs, std::source_location::current());
  const Tensor sum = outputs[0];
  std::copy_n("mul", 3, name);
  dispatcher_.dispatch(name, inputs, {}, {}, outputs, std::source_location::current());
  stream_->synchronize();
  EXPECT_THAT(values_of(sum), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(1, 4, 9, 16, 25, 36));
}

TEST_F(EagerDispatcherTest, ErrorsNameTheLineOfModelCode) {
  const auto line = std::source_location::current().line() + 1;
  const Error error = error_of([&] { add(context_, x_, float_tensor(kF32, {1}, {1})); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(),
              HasSubstr(fmt::format("eager_dispatcher_test.cc:{}: add: argument 'b' has shape", line)));
}

TEST_F(EagerDispatcherTest, RefusesAnOperatorWithoutKernel) {
  registry_.add(OpDef(
      "mine(Tensor x) -> Tensor y", {},
      [](const OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = call.inputs[0].meta(); }, nullptr));
  const Tensor inputs[] = {x_};
  Tensor outputs[1];
  const auto call = [&](const char* name) {
    dispatcher_.dispatch(name, inputs, {}, {}, outputs, std::source_location::current());
  };
  const Error error = error_of([&] { call("mine"); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("operator 'mine' has no kernel on device 'cpu'"));
  EXPECT_EQ(error_of([&] { call("min"); }).code(), ErrorCode::kNotFound);
}

TEST_F(EagerDispatcherTest, RefusesTensorsWithoutMemory) {
  const Tensor meta(TensorMeta(kF32, {2, 3}), nullptr);
  const Error error = error_of([&] { add(context_, x_, meta); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("add: argument 'b' has no memory"));
}

TEST_F(EagerDispatcherTest, RefusesPlainWeightsAndUnknownFormatsWithARemedy) {
  const Error plain = error_of([&] { linear(context_, x_, {.weight = x_, .bias = {}}); });
  EXPECT_EQ(plain.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(plain.remedy_text(), "pack it once with pack_linear_weight()");
  const Error unknown = error_of([&] { pack_linear_weight(context_, x_, "n99"); });
  EXPECT_THAT(unknown.message(), HasSubstr("there is no format 'n99' for float32[2, 3], only 'n16'"));
  EXPECT_EQ(pack_linear_weight(context_, x_).format(), Format("n16"));
}

TEST_F(EagerDispatcherTest, GivesWorkspaceToOperatorsThatAreNotHostTiledAsWell) {
  static OpKernel healthy;
  static size_t bytes = 0;
  healthy = *registry_.get("add").kernel("cpu");
  OpKernel kernel = healthy;
  kernel.max_workspace = [](const OpCall&) { return size_t{1000}; };
  kernel.run = [](const OpCall& call) {
    bytes = call.workspace.defined() ? call.workspace.meta().contiguous_bytes() : 0;
    healthy.run(call);
  };
  registry_.get("add").set_kernel("cpu", kernel);
  add(context_, x_, x_);
  EXPECT_GE(bytes, 1000u);
}

TEST_F(EagerDispatcherTest, GivesHostTiledOperatorsTheirWorkspaceAgainAndAgain) {
  const Tensor cache = empty_tensor(kF32, {200, 16, 1, 2});
  std::fill_n(cache.data_as<float>(), cache.shape().elements(), 1.0f);
  const auto attend = [&](int32_t length) {
    std::vector<int32_t> pages(static_cast<size_t>((length + 15) / 16));
    const TensorMeta table(DType::kI32, Shape{1, static_cast<int64_t>(pages.size())});
    context_.block_tables = int_tensor(pages).with_meta(table);
    const int32_t one = 1;
    context_.query_lengths = std::span(&one, 1);
    context_.kv_lengths = std::span<const int32_t>(&length, 1);
    const Tensor q = float_tensor(kF32, {1, 1, 2}, {1, 1});
    const Tensor result = paged_attention(context_, q, cache, cache, 1.0);
    stream_->synchronize();
    return values_of(result);
  };
  for (const int32_t length : {1, 3000, 700, 3200}) EXPECT_THAT(attend(length), ElementsAre(1, 1)) << length;
}

}  // namespace
}  // namespace reprise::ops
