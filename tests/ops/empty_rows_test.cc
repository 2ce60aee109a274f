// Steps without rows, experts without tokens and weights without columns: nothing to do is done without a fault.
#include <gtest/gtest.h>

#include <cstring>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/eager_dispatcher.h"
#include "ops/fused_norm.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/quantize.h"
#include "ops/swiglu.h"

namespace reprise::ops {
namespace {

class EmptyRows : public ::testing::Test {
 protected:
  EmptyRows() { kernels::cpu::register_cpu_kernels(registry_, kernels::cpu::instruction_set_from_environment()); }

  template <typename T>
  Tensor make(DType dtype, const Shape& shape, T value) {
    const Tensor tensor(TensorMeta(dtype, shape), device_->allocate(TensorMeta(dtype, shape).contiguous_bytes()));
    for (int64_t i = 0; i < shape.elements(); ++i) tensor.data_as<T>()[i] = value;
    return tensor;
  }
  Tensor floats(const Shape& shape, float value = 1) { return make(DType::kF32, shape, value); }

  LinearWeights int8_weights(int64_t outputs, int64_t inputs, bool is_static) {
    LinearWeights weights;
    weights.weight = pack_linear_weight(context_, make(DType::kI8, {outputs, inputs}, int8_t{3}));
    weights.scale = floats({outputs}, 0.5f);
    if (is_static) {
      weights.quant_bias = make(DType::kI32, {outputs}, int32_t{7});
      weights.input_scale = floats({1}, 0.1f);
      weights.input_offset = floats({1}, 12);
    }
    return weights;
  }
  std::vector<float> values(const Tensor& tensor) {
    device_->default_stream().synchronize();
    return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.shape().elements()};
  }

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 2});
  EagerDispatcher dispatcher_{registry_, *device_, device_->default_stream()};
  ForwardContext context_{dispatcher_};
};

TEST_F(EmptyRows, B34AStepWithoutRowsIsNoWorkInInt8) {
  const Tensor x = floats({0, 40});
  const Tensor scale = floats({1}, 0.1f);
  EXPECT_EQ(quantize(context_, x, scale, {}).shape(), (Shape{0, 40}));
  EXPECT_EQ(dynamic_quantize(context_, x).scales.shape(), Shape{0});
  for (const bool is_static : {false, true}) {
    EXPECT_EQ(linear(context_, x, int8_weights(24, 40, is_static)).shape(), (Shape{0, 24}));
  }
  const Tensor weight = floats({40});
  EXPECT_EQ(add_rms_norm_quantize(context_, x, x, weight, scale, {}, 1e-6).y.shape(), (Shape{0, 40}));
  EXPECT_EQ(add_rms_norm_dynamic_quantize(context_, x, x, weight, {}, 1e-6).y.values.shape(), (Shape{0, 40}));
  EXPECT_EQ(swiglu_dynamic_quantize(context_, x, x).values.shape(), (Shape{0, 40}));
  EXPECT_EQ(swiglu_quantize(context_, x, x, scale, {}).shape(), (Shape{0, 40}));
  device_->default_stream().synchronize();
}

TEST_F(EmptyRows, B34AWeightWithoutColumnsGivesWhatIsAddedToNothing) {
  const Tensor x = floats({3, 0});
  // Without products: quant_bias * scale, or nothing.
  EXPECT_EQ(values(linear(context_, x, int8_weights(5, 0, true))), std::vector<float>(15, 3.5f));
  EXPECT_EQ(values(linear(context_, x, int8_weights(5, 0, false))), std::vector<float>(15, 0.0f));
}

TEST_F(EmptyRows, B34ExpertsThatNoTokenChoosesDoNothing) {
  constexpr int64_t kExperts = 8;
  for (const int64_t tokens : {0, 1, 5}) {
    // Everyone goes to the last expert and to the fourth.
    const Tensor logits = floats({tokens, kExperts}, 0);
    for (int64_t t = 0; t < tokens; ++t) {
      logits.data_as<float>()[t * kExperts + 7] = 3;
      logits.data_as<float>()[t * kExperts + 3] = 2;
    }
    const ExpertChoice choice = moe_gating_top_k(context_, logits, 2, true);
    const ExpertRoutes routes = moe_route(context_, choice.experts, kExperts);
    device_->default_stream().synchronize();
    const auto* offsets = routes.offsets.data_as<int32_t>();
    for (int64_t e = 0; e <= kExperts; ++e) EXPECT_EQ(offsets[e], e <= 3 ? 0 : e <= 7 ? tokens : 2 * tokens) << e;
    LinearWeights stack;
    const Tensor one = pack_linear_weight(context_, make(DType::kI8, {16, 40}, int8_t{2}));
    device_->default_stream().synchronize();
    const size_t bytes = one.storage()->bytes();
    const Shape shape{kExperts, 16, 40};
    stack.weight = Tensor(TensorMeta(DType::kI8, shape, one.format()), device_->allocate(bytes * kExperts));
    for (size_t e = 0; e < kExperts; ++e) {
      std::memcpy(static_cast<std::byte*>(stack.weight.data()) + e * bytes, one.data(), bytes);
    }
    stack.scale = floats({kExperts, 16}, 0.25f);
    const Tensor rows = floats({2 * tokens, 40}, 1);
    const std::vector<float> y = values(grouped_linear(context_, rows, stack, routes.offsets));
    ASSERT_EQ(y.size(), static_cast<size_t>(2 * tokens * 16));
    for (const float value : y) EXPECT_FLOAT_EQ(value, 2 * 0.25f * 40);
  }
}

}  // namespace
}  // namespace reprise::ops
