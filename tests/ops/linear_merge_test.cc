#include "ops/linear_merge.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/copies.h"
#include "ops/eager_dispatcher.h"
#include "ops/host_tensor.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

class LinearMerge : public ::testing::TestWithParam<kernels::cpu::InstructionSet> {
 protected:
  LinearMerge() { kernels::cpu::register_cpu_kernels(registry_, GetParam()); }

  LinearWeights weights(DType dtype, int64_t outputs, int64_t inputs, bool bias) {
    LinearWeights result;
    const Tensor plain = random_tensor(dtype, {outputs, inputs}, random_);
    result.weight = pack_linear_weight(context_, plain);
    stream_->synchronize();
    if (bias) result.bias = random_tensor(DType::kF32, {outputs}, random_);
    return result;
  }

  void expect_equal(const Tensor& got, const Tensor& expected) {
    const Tensor a = copy(context_, got);
    const Tensor b = copy(context_, expected);
    stream_->synchronize();
    ASSERT_EQ(a.meta(), b.meta());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.meta().contiguous_bytes()), 0);
  }

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 1});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
  std::mt19937 random_{8};
};
INSTANTIATE_TEST_SUITE_P(Cpu, LinearMerge, ::testing::ValuesIn(kernels::cpu::available_instruction_sets()),
                         [](const auto& info_of_test) { return std::string(name_of(info_of_test.param)); });

TEST_P(LinearMerge, MergedProductsHoldTheBitsOfTheSeparateOnes) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool bias : {false, true}) {
      for (const int64_t rows : {1, 5, 97}) {
        const LinearWeights separate[] = {weights(dtype, 48, 33, bias), weights(dtype, 16, 33, bias),
                                          weights(dtype, 21, 33, bias)};
        const MergedLinearWeights merged = merge_linear_weights(registry_, *device_, separate);
        EXPECT_EQ(merged.merged.weight.shape(), (Shape{85, 33}));
        ASSERT_EQ(merged.parts.size(), 3u);
        const Tensor x = random_tensor(DType::kBF16, {rows, 33}, random_);
        const Tensor all = linear(context_, x, merged.merged);
        int64_t begin = 0;
        for (size_t i = 0; i < 3; ++i) {
          const Tensor expected = linear(context_, x, separate[i]);
          expect_equal(linear(context_, x, merged.parts[i]), expected);
          const int64_t end = begin + separate[i].weight.size(0);
          expect_equal(slice(context_, all, 1, begin, end), expected);
          EXPECT_EQ(merged.parts[i].weight.storage(), merged.merged.weight.storage());
          begin = end;
        }
      }
    }
  }
}

TEST_P(LinearMerge, Int8WeightsMergeWithTheirScalesIfTheirInputIsQuantisedAlike) {
  const auto int8_weights = [&](int64_t outputs) {
    const Tensor plain = empty_tensor(DType::kI8, {outputs, 33});
    for (int64_t i = 0; i < outputs * 33; ++i) plain.data_as<int8_t>()[i] = static_cast<int8_t>(random_());
    LinearWeights result{.weight = pack_linear_weight(context_, plain), .bias = {}};
    stream_->synchronize();
    result.scale = random_tensor(DType::kF32, {outputs}, random_);
    return result;
  };
  const Tensor x = random_tensor(DType::kBF16, {7, 33}, random_);
  const Tensor input_scale = float_tensor(DType::kF32, {1}, {0.03f});
  for (const bool is_static : {false, true}) {
    LinearWeights separate[] = {int8_weights(48), int8_weights(16), int8_weights(21)};
    for (LinearWeights& one : separate) {
      if (!is_static) continue;
      one.input_scale = input_scale;
      std::vector<int32_t> sums(static_cast<size_t>(one.weight.size(0)));
      for (int32_t& sum : sums) sum = static_cast<int32_t>(random_() % 100);
      one.quant_bias = int_tensor(sums);
    }
    const MergedLinearWeights merged = merge_linear_weights(registry_, *device_, separate);
    const auto joined = join_linear_weights(registry_, "cpu", merged.parts);
    ASSERT_TRUE(joined);
    EXPECT_EQ(joined->scale.data(), merged.merged.scale.data());
    const Tensor all = linear(context_, x, *joined);
    int64_t begin = 0;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t end = begin + separate[i].weight.size(0);
      const Tensor expected = linear(context_, x, separate[i]);
      expect_equal(linear(context_, x, merged.parts[i]), expected);
      expect_equal(slice(context_, all, 1, begin, end), expected);
      begin = end;
    }
    separate[1].input_scale = float_tensor(DType::kF32, {1}, {0.03f});
    EXPECT_EQ(merge_hazard(registry_, "cpu", separate), "weight 1 is not quantised as the first is");
  }
}

TEST_P(LinearMerge, PartsThatLieTogetherAreJoinedWithoutACopy) {
  const LinearWeights separate[] = {weights(DType::kBF16, 32, 8, true), weights(DType::kBF16, 16, 8, true)};
  std::string reason;
  EXPECT_FALSE(join_linear_weights(registry_, "cpu", separate, &reason));
  EXPECT_EQ(reason, "they do not lie one after the other in one storage");
  MergedLinearWeights merged = merge_linear_weights(registry_, *device_, separate);
  const auto joined = join_linear_weights(registry_, "cpu", merged.parts, &reason);
  ASSERT_TRUE(joined) << reason;
  EXPECT_EQ(reason, "");
  EXPECT_EQ(joined->weight.data(), merged.merged.weight.data());
  EXPECT_EQ(joined->weight.meta(), merged.merged.weight.meta());
  EXPECT_EQ(joined->bias.data(), merged.merged.bias.data());
  EXPECT_EQ(joined->bias.meta(), merged.merged.bias.meta());
  std::swap(merged.parts[0], merged.parts[1]);
  EXPECT_FALSE(join_linear_weights(registry_, "cpu", merged.parts));
}

TEST_P(LinearMerge, WeightsThatDoNotFitAreRefusedWithTheReason) {
  const auto hazard = [&](const LinearWeights& a, const LinearWeights& b) {
    const LinearWeights both[] = {a, b};
    const std::string reason = merge_hazard(registry_, "cpu", both);
    if (!reason.empty()) {
      EXPECT_THROW(merge_linear_weights(registry_, *device_, both), Error);
    }
    return reason;
  };
  const LinearWeights good = weights(DType::kBF16, 32, 8, false);
  EXPECT_EQ(hazard(good, weights(DType::kBF16, 5, 8, false)), "");
  EXPECT_EQ(hazard(weights(DType::kBF16, 24, 8, false), good),
            "the 24 rows of weight 0 do not fill the blocks of the format 'n16k2'");
  EXPECT_EQ(hazard(good, weights(DType::kF32, 32, 8, false)), "weight 1 is float32, the first is bfloat16");
  EXPECT_EQ(hazard(good, weights(DType::kBF16, 32, 9, false)), "weight 1 has 9 columns, the first has 8");
  EXPECT_EQ(hazard(good, weights(DType::kBF16, 32, 8, true)), "some have a bias and some have none");
  const LinearWeights plain = {.weight = random_tensor(DType::kBF16, {32, 8}, random_), .bias = {}};
  EXPECT_EQ(hazard(good, plain), "weight 1 has the format 'nd', the first has 'n16k2'");
  LinearWeights cut = good;
  cut.parallel = LinearWeights::Parallel::kColumn;
  EXPECT_EQ(hazard(good, cut), "weight 1 is not cut as the first is");
  EXPECT_EQ(merge_hazard(registry_, "cpu", {&good, 1}), "there are fewer than two weights");
}

TEST_P(LinearMerge, WeightsWithoutMemoryAreMergedInNameOnly) {
  const auto without_memory = [](int64_t outputs) {
    const TensorMeta meta(DType::kF32, Shape{outputs, 4}, Format("n16"));
    return LinearWeights{.weight = Tensor(meta, std::make_shared<Storage>(nullptr, 0)), .bias = {}};
  };
  const LinearWeights separate[] = {without_memory(16), without_memory(32)};
  const MergedLinearWeights merged = merge_linear_weights(registry_, *device_, separate);
  EXPECT_TRUE(merged.merged.weight.is_meta());
  EXPECT_TRUE(merged.parts[1].weight.is_meta());
  const auto joined = join_linear_weights(registry_, "cpu", merged.parts);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->weight.shape(), (Shape{48, 4}));
}

}  // namespace
}  // namespace reprise::ops
