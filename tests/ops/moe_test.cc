// Mixtures of experts: what the operators promise of each other and of rows.

#include "ops/moe.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/host_tensor.h"
#include "ops/moe_experts.h"
#include "ops/views.h"
#include "ops/weight_stack.h"

namespace reprise::ops {
namespace {

using kernels::cpu::InstructionSet;

class MoeOperators : public ::testing::TestWithParam<InstructionSet> {
 protected:
  MoeOperators() : device_(device::cpu::create_cpu_device({.threads = 2})), stream_(device_->create_stream()) {
    kernels::cpu::register_cpu_kernels(registry_, GetParam());
  }

  Tensor pack(const Tensor& weight) {
    const Tensor packed = pack_linear_weight(context_, weight);
    stream_->synchronize();
    return packed;
  }

  /// The layer of plain operators: logits and x of the same tokens.
  Tensor layer(const Tensor& x, const Tensor& logits, int64_t top_k) {
    const ExpertChoice choice = moe_gating_top_k(context_, logits, top_k, true);
    const ExpertRoutes routes = moe_route(context_, choice.experts, logits.size(1));
    const Tensor rows = grouped_linear(context_, gather_rows(context_, x, routes.tokens), stack_, routes.offsets);
    offsets_ = routes.offsets;
    const Tensor y = moe_combine(context_, rows, choice.weights, routes.places);
    stream_->synchronize();
    return y;
  }

  void make_stack(DType dtype, int64_t experts, int64_t outputs, int64_t inputs) {
    WeightStack stack(*device_, experts);
    for (int64_t e = 0; e < experts; ++e) {
      experts_.push_back(pack(random_tensor(dtype, {outputs, inputs}, random_)));
      stack.add(experts_.back());
    }
    stack_.weight = stack.finish();
  }

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
  std::mt19937 random_{4};
  std::vector<Tensor> experts_;
  LinearWeights stack_;
  Tensor offsets_;
};

Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  TensorMeta meta = tensor.meta();
  meta.shape[0] = count;
  return tensor.with_meta(meta, static_cast<size_t>(first * tensor.stride(0)) * size_of(tensor.dtype()));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.meta().contiguous_bytes()) == 0;
}

TEST_P(MoeOperators, GroupedLinearGivesTheBitsOfLinear) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    experts_.clear();
    make_stack(dtype, 5, 35, 67);
    const Tensor x = random_tensor(dtype, {40, 67}, random_);
    const std::vector<int32_t> offsets = {0, 1, 1, 8, 33, 40};
    const Tensor groups = int_tensor(offsets);
    const Tensor y = grouped_linear(context_, x, stack_, groups);
    for (size_t e = 0; e < 5; ++e) {
      const int64_t count = offsets[e + 1] - offsets[e];
      LinearWeights expert;
      expert.weight = experts_[e];
      const Tensor alone = linear(context_, rows_of(x, offsets[e], count), expert);
      stream_->synchronize();
      EXPECT_TRUE(same_bits(rows_of(y, offsets[e], count), alone)) << "expert " << e;
    }
  }
}

TEST_P(MoeOperators, B53ATokenGetsTheSameBitsAloneAndInABatchOfAnySize) {
  constexpr int64_t kExperts = 16;
  constexpr int64_t kTopK = 8;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    experts_.clear();
    make_stack(dtype, kExperts, 33, 40);
    const Tensor x = random_tensor(dtype, {65, 40}, random_);
    const Tensor logits = random_tensor(DType::kF32, {65, kExperts}, random_);
    for (const int64_t batch : {15, 16, 17, 33, 64, 65}) {
      const Tensor all = layer(rows_of(x, 0, batch), rows_of(logits, 0, batch), kTopK);
      EXPECT_EQ(offsets_.data_as<int32_t>()[kExperts], batch * kTopK);
      for (const int64_t row : {int64_t{0}, batch / 2, batch - 1}) {
        const Tensor alone = layer(rows_of(x, row, 1), rows_of(logits, row, 1), kTopK);
        EXPECT_TRUE(same_bits(rows_of(all, row, 1), alone)) << "row " << row << " of " << batch;
      }
    }
  }
}

TEST_P(MoeOperators, B53FiveTokensInABucketOfEightMakeFortyRows) {
  make_stack(DType::kF32, 128, 20, 24);
  const Tensor x = random_tensor(DType::kF32, {8, 24}, random_);
  const Tensor logits = random_tensor(DType::kF32, {8, 128}, random_);
  const Tensor five = layer(rows_of(x, 0, 5), rows_of(logits, 0, 5), 8);
  // What padding holds does not matter.
  std::fill_n(x.data_as<float>() + 5 * 24, 3 * 24, NAN);
  std::fill_n(logits.data_as<float>() + 5 * 128, 3 * 128, NAN);
  context_.token_count = int_tensor({5});
  const Tensor padded = layer(x, logits, 8);
  EXPECT_EQ(offsets_.data_as<int32_t>()[128], 40);
  EXPECT_TRUE(same_bits(rows_of(padded, 0, 5), five));
  for (int64_t i = 0; i < 3 * 20; ++i) EXPECT_EQ(padded.data_as<float>()[5 * 20 + i], 0.0f);
}

TEST_P(MoeOperators, OneOperatorForAllExpertsGivesTheBitsOfThePlainOnes) {
  constexpr int64_t kExperts = 6;
  constexpr int64_t kWidth = 300;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // The gate fills its blocks in some of these.
    for (const int64_t intermediate : {1, 16, 31, 48}) {
      make_stack(dtype, kExperts, 2 * intermediate, kWidth);
      const LinearWeights gate_up = stack_;
      make_stack(dtype, kExperts, kWidth, intermediate);
      for (const int64_t tokens : {1, 5, 33}) {
        const Tensor x = random_tensor(dtype, {tokens, kWidth}, random_);
        const Tensor logits = random_tensor(DType::kF32, {tokens, kExperts}, random_);
        context_.token_count = int_tensor({static_cast<int32_t>(tokens - tokens / 4)});
        const ExpertChoice choice = moe_gating_top_k(context_, logits, 3, true);
        const ExpertRoutes routes = moe_route(context_, choice.experts, kExperts);
        const Tensor both = grouped_linear(context_, gather_rows(context_, x, routes.tokens), gate_up, routes.offsets);
        const Tensor gate = silu(context_, slice(context_, both, 1, 0, intermediate));
        const Tensor hidden = mul(context_, gate, slice(context_, both, 1, intermediate, 2 * intermediate));
        const Tensor y = grouped_linear(context_, hidden, stack_, routes.offsets);
        const Tensor plain = moe_combine(context_, y, choice.weights, routes.places);
        const ExpertsResult fused = moe_experts(context_, x, choice, gate_up.weight, stack_.weight);
        stream_->synchronize();
        EXPECT_TRUE(same_bits(fused.out, plain)) << tokens << " tokens, " << intermediate << " wide";
        EXPECT_TRUE(same_bits(fused.offsets, routes.offsets));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, MoeOperators, ::testing::ValuesIn(kernels::cpu::available_instruction_sets()),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(WeightStack, TakesEqualWeightsOnly) {
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  WeightStack stack(*device, 2);
  EXPECT_THROW(stack.finish(), Error);
  stack.add(float_tensor(DType::kF32, {2, 2}, {1, 2, 3, 4}));
  EXPECT_THROW(stack.add(float_tensor(DType::kF32, {2, 1}, {1, 2})), Error);
  EXPECT_THROW(stack.add(float_tensor(DType::kBF16, {2, 2}, {1, 2, 3, 4})), Error);
  stack.add(float_tensor(DType::kF32, {2, 2}, {5, 6, 7, 8}));
  EXPECT_THROW(stack.add(float_tensor(DType::kF32, {2, 2}, {9, 9, 9, 9})), Error);
  const Tensor all = stack.finish();
  EXPECT_EQ(all.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values_of(all), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace reprise::ops
