// Mixtures of experts: what the operators promise of each other and of rows.

#include "ops/moe.h"

#include <gtest/gtest.h>

#include <cmath>
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
#include "ops/moe_place.h"
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

  /// Experts of int8 weights with their scales.
  LinearWeights make_int8_stack(int64_t experts, int64_t outputs, int64_t inputs) {
    WeightStack stack(*device_, experts);
    for (int64_t e = 0; e < experts; ++e) {
      const Tensor plain = empty_tensor(DType::kI8, {outputs, inputs});
      for (int64_t i = 0; i < outputs * inputs; ++i) {
        plain.data_as<int8_t>()[i] = static_cast<int8_t>(static_cast<uint8_t>(random_()));
      }
      stack.add(pack(plain));
    }
    LinearWeights weights;
    weights.weight = stack.finish();
    weights.scale = random_tensor(DType::kF32, {experts, outputs}, random_);
    for (int64_t i = 0; i < experts * outputs; ++i) weights.scale.data_as<float>()[i] *= 0.01f;
    return weights;
  }

  /// The layer behind the choice, in plain operators.
  Tensor plain_experts(const Tensor& x, const ExpertChoice& choice, const LinearWeights& gate_up,
                       const LinearWeights& down) {
    const int64_t intermediate = down.weight.size(2);
    const ExpertRoutes routes = moe_route(context_, choice.experts, down.weight.size(0));
    offsets_ = routes.offsets;
    const Tensor both = grouped_linear(context_, gather_rows(context_, x, routes.tokens), gate_up, routes.offsets);
    const Tensor gate = silu(context_, slice(context_, both, 1, 0, intermediate));
    const Tensor hidden = mul(context_, gate, slice(context_, both, 1, intermediate, 2 * intermediate));
    const Tensor y = grouped_linear(context_, hidden, down, routes.offsets);
    return moe_combine(context_, y, choice.weights, routes.places);
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
        const Tensor plain = plain_experts(x, choice, gate_up, stack_);
        const ExpertsResult fused = moe_experts(context_, x, choice, gate_up.weight, stack_.weight);
        stream_->synchronize();
        EXPECT_TRUE(same_bits(fused.out, plain)) << tokens << " tokens, " << intermediate << " wide";
        EXPECT_TRUE(same_bits(fused.offsets, offsets_));
      }
    }
  }
}

TEST_P(MoeOperators, OneOperatorForAllInt8ExpertsGivesTheBitsOfThePlainOnes) {
  constexpr int64_t kExperts = 6;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [width, intermediate] : {std::pair(300, 16), {65, 31}, {16, 1}}) {
      const LinearWeights gate_up = make_int8_stack(kExperts, 2 * intermediate, width);
      const LinearWeights down = make_int8_stack(kExperts, width, intermediate);
      for (const int64_t tokens : {1, 5, 33}) {
        const Tensor x = random_tensor(dtype, {tokens, width}, random_);
        const Tensor logits = random_tensor(DType::kF32, {tokens, kExperts}, random_);
        context_.token_count = int_tensor({static_cast<int32_t>(tokens - tokens / 4)});
        const ExpertChoice choice = moe_gating_top_k(context_, logits, 3, true);
        const Tensor plain = plain_experts(x, choice, gate_up, down);
        const ExpertsResult fused = int8_moe_experts(context_, x, choice, gate_up, down);
        stream_->synchronize();
        EXPECT_TRUE(same_bits(fused.out, plain)) << tokens << " tokens, " << width << " x " << intermediate;
        EXPECT_TRUE(same_bits(fused.offsets, offsets_));
      }
    }
  }
}

TEST_P(MoeOperators, B39B53Int8ExpertsNeitherReadNorCountPadding) {
  const LinearWeights gate_up = make_int8_stack(16, 2 * 20, 24);
  const LinearWeights down = make_int8_stack(16, 24, 20);
  const Tensor x = random_tensor(DType::kBF16, {8, 24}, random_);
  const Tensor logits = random_tensor(DType::kF32, {8, 16}, random_);
  const auto both = [&](int64_t tokens) {
    const ExpertChoice choice = moe_gating_top_k(context_, rows_of(logits, 0, tokens), 4, true);
    const Tensor plain = plain_experts(rows_of(x, 0, tokens), choice, gate_up, down);
    const Tensor fused = int8_moe_experts(context_, rows_of(x, 0, tokens), choice, gate_up, down).out;
    stream_->synchronize();
    EXPECT_EQ(offsets_.data_as<int32_t>()[16], 5 * 4) << "rows of the five tokens that there are";
    EXPECT_TRUE(same_bits(plain, fused));
    return fused;
  };
  const Tensor five = both(5);
  std::memset(x.data_as<std::byte>() + 5 * 24 * 2, 0xFF, 3 * 24 * 2);
  std::fill_n(logits.data_as<float>() + 5 * 16, 3 * 16, NAN);
  context_.token_count = int_tensor({5});
  const Tensor padded = both(8);
  EXPECT_TRUE(same_bits(rows_of(padded, 0, 5), five));
  for (const float value : values_of(rows_of(padded, 5, 3))) EXPECT_EQ(value, 0.0f);
}

TEST_P(MoeOperators, B53RoutesByTheSoftmaxOverAllExpertsTiesToTheLowerIndex) {
  // Two tie for the second place of three; the same logits again, so that a tie is a tie in every row.
  const float logits[] = {0, 1, 2, 1, -1, 1};
  std::vector<float> rows(logits, logits + 6);
  rows.insert(rows.end(), logits, logits + 6);
  const Tensor device_logits = float_tensor(DType::kF32, {2, 6}, rows);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  for (const bool renormalize : {false, true}) {
    const ExpertChoice choice = moe_gating_top_k(context_, device_logits, 3, renormalize);
    stream_->synchronize();
    const double sum = renormalize ? (std::exp(2.0) + 2 * std::exp(1.0)) / total : 1.0;
    for (int64_t row = 0; row < 2; ++row) {
      const int32_t* experts = choice.experts.data_as<int32_t>() + 3 * row;
      EXPECT_EQ(std::vector<int32_t>(experts, experts + 3), (std::vector<int32_t>{2, 1, 3}));
      const float* weights = choice.weights.data_as<float>() + 3 * row;
      EXPECT_NEAR(weights[0], std::exp(2.0) / total / sum, 1e-6);
      EXPECT_NEAR(weights[1], std::exp(1.0) / total / sum, 1e-6);
      EXPECT_EQ(weights[1], weights[2]);
    }
  }
}

TEST_P(MoeOperators, DrawnCopiesShareTheRowsOfPromptsAndOfSteps) {
  for (const int32_t copies : {2, 3, 4}) {
    std::vector<int32_t> map = {copies};
    for (int32_t copy = 0; copy < copies; ++copy) map.push_back(copy);
    const Tensor device_map = int_tensor(map).with_meta(TensorMeta(DType::kI32, {1, copies + 1}));
    // A prompt, a batch of sequences of one length, and the steps of a single one.
    for (const auto& [rows, first, step] : {std::tuple(240, 17, 1), {240, 50, 0}, {1, 0, 0}}) {
      std::vector<int32_t> taken(static_cast<size_t>(copies));
      for (int32_t round = 0; round < 240 / rows; ++round) {
        std::vector<int32_t> positions;
        for (int32_t row = 0; row < rows; ++row) positions.push_back(first + row * step + round);
        // Work that is queued borrows the tests' tensors.
        const Tensor experts =
            int_tensor(std::vector<int32_t>(positions.size(), 0)).with_meta(TensorMeta(DType::kI32, {rows, 1}));
        const Tensor device_positions = int_tensor(positions);
        const Tensor places = moe_place(context_, experts, device_map, device_positions);
        stream_->synchronize();
        for (int32_t row = 0; row < rows; ++row) ++taken[static_cast<size_t>(places.data_as<int32_t>()[row])];
      }
      for (const int32_t count : taken) {
        EXPECT_GT(count, 240 / copies * 2 / 3) << copies << " copies, " << rows << " rows";
      }
    }
  }
}

TEST_P(MoeOperators, ASumDoesNotDependOnWhereTheExpertsLie) {
  constexpr int64_t kExperts = 7;
  make_stack(DType::kBF16, kExperts, 2 * 16, 40);
  const LinearWeights gate_up = stack_;
  make_stack(DType::kBF16, kExperts, 40, 16);
  const Tensor x = random_tensor(DType::kBF16, {9, 40}, random_);
  const Tensor logits = random_tensor(DType::kF32, {9, kExperts}, random_);
  const ExpertChoice choice = moe_gating_top_k(context_, logits, 4, false);
  const Tensor expected = plain_experts(x, choice, gate_up, stack_);
  stream_->synchronize();
  // Backwards, with a second copy of experts 1 and 5 in front.
  const std::vector<int32_t> placement = {1, 5, 6, 5, 4, 3, 2, 1, 0};
  std::vector<int32_t> map(3 * kExperts, 0);
  for (size_t place = 0; place < placement.size(); ++place) {
    int32_t* row = map.data() + 3 * placement[place];
    row[1 + row[0]++] = static_cast<int32_t>(place);
  }
  const auto placed = [&](const Tensor& stack) {
    // Places are equal parts of a stack.
    const size_t bytes = stack.storage()->bytes() / kExperts;
    const auto storage = device_->allocate(bytes * placement.size());
    for (size_t place = 0; place < placement.size(); ++place) {
      std::memcpy(static_cast<std::byte*>(storage->data()) + place * bytes,
                  stack.data_as<std::byte>() + static_cast<size_t>(placement[place]) * bytes, bytes);
    }
    LinearWeights result;
    result.weight =
        Tensor(TensorMeta(stack.dtype(), {static_cast<int64_t>(placement.size()), stack.size(1), stack.size(2)},
                          stack.format()),
               storage);
    return result;
  };
  const LinearWeights moved_gate_up = placed(gate_up.weight);
  const LinearWeights moved_down = placed(stack_.weight);
  const Tensor device_map = int_tensor(map).with_meta(TensorMeta(DType::kI32, {kExperts, 3}));
  for (const Tensor& positions : {Tensor(), int_tensor({0, 1, 2, 3, 9, 8, 7, 6, 5})}) {
    const ExpertChoice moved{choice.weights, moe_place(context_, choice.experts, device_map, positions)};
    const Tensor plain = plain_experts(x, moved, moved_gate_up, moved_down);
    const Tensor fused = moe_experts(context_, x, moved, moved_gate_up.weight, moved_down.weight).out;
    stream_->synchronize();
    EXPECT_TRUE(same_bits(plain, expected));
    EXPECT_TRUE(same_bits(fused, expected));
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
  EXPECT_THROW(stack.repeat(1), Error);
  stack.add(float_tensor(DType::kF32, {2, 2}, {5, 6, 7, 8}));
  EXPECT_THROW(stack.repeat(0), Error);
  EXPECT_THROW(stack.add(float_tensor(DType::kF32, {2, 2}, {9, 9, 9, 9})), Error);
  const Tensor all = stack.finish();
  EXPECT_EQ(all.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values_of(all), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(WeightStack, RepeatsWhatItHas) {
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  WeightStack stack(*device, 3);
  stack.add(float_tensor(DType::kF32, {1, 2}, {1, 2}));
  stack.add(float_tensor(DType::kF32, {1, 2}, {3, 4}));
  stack.repeat(0);
  EXPECT_EQ(values_of(stack.finish()), (std::vector<float>{1, 2, 3, 4, 1, 2}));
}

}  // namespace
}  // namespace reprise::ops
