// References against numbers worked out by hand: they are what every kernel is compared with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/batch_matmul.h"
#include "ops/convolution.h"
#include "ops/copies.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/host_tensor.h"
#include "ops/int8_linear.h"
#include "ops/kv_cache.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/reference_dispatcher.h"
#include "ops/rope.h"
#include "ops/split_qkv.h"
#include "ops/swiglu.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsNan;
using ::testing::Pointwise;

class Reference : public ::testing::Test {
 protected:
  Registry registry_ = make_catalogue();
  ReferenceDispatcher dispatcher_{registry_};
  ForwardContext context_{dispatcher_};
};

TEST_F(Reference, ViewsShareMemoryAndKnowTheirOffset) {
  const Tensor x = float_tensor(kF32, {2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor heads = reshape(context_, x, {2, 3, 2});
  const Tensor middle = slice(context_, heads, 1, 1, 3);
  EXPECT_EQ(middle.data(), x.data_as<float>() + 2);
  EXPECT_EQ(middle.shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(values_of(middle), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(values_of(slice(context_, middle, 0, 1, 2)), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(values_of(copy(context_, middle)), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_TRUE(copy(context_, middle).is_contiguous());
}

TEST_F(Reference, CastRoundsToNearestEven) {
  // 1 + 2^-8 lies between the bfloat16 neighbours 1 and 1 + 2^-7; 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6.
  const Tensor x = float_tensor(kF32, {3}, {1.00390625f, 1.01171875f, -1.5f});
  EXPECT_THAT(values_of(cast(context_, x, DType::kBF16)), ElementsAre(1.0f, 1.015625f, -1.5f));
}

TEST_F(Reference, ElementwiseComputesItsFormula) {
  const Tensor a = float_tensor(kF32, {3}, {1, -2, 0});
  const Tensor b = float_tensor(kF32, {3}, {0.5f, 4, 3});
  EXPECT_THAT(values_of(add(context_, a, b)), ElementsAre(1.5f, 2, 3));
  EXPECT_THAT(values_of(mul(context_, a, b)), ElementsAre(0.5f, -8, 0));
  EXPECT_THAT(values_of(silu(context_, a)), Pointwise(FloatNear(1e-6f), {0.7310586f, -0.2384058f, 0.0f}));
}

TEST_F(Reference, RmsNormDividesByTheRootOfTheMeanSquare) {
  const Tensor x = float_tensor(kF32, {1, 2}, {3, 4});
  const Tensor weight = float_tensor(kF32, {2}, {1, 2});
  const float scale = 1.0f / std::sqrt(12.5f + 0.5f);
  EXPECT_THAT(values_of(rms_norm(context_, x, weight, 0.5)), Pointwise(FloatNear(1e-6f), {3 * scale, 8 * scale}));
}

TEST_F(Reference, LinearMultipliesByTheTransposedWeightAndAddsTheBias) {
  const Tensor x = float_tensor(kF32, {2, 2}, {1, 2, 3, 4});
  LinearWeights weights{.weight = float_tensor(kF32, {3, 2}, {1, 0, 0, 1, 1, -1}), .bias = {}};
  EXPECT_THAT(values_of(linear(context_, x, weights)), ElementsAre(1, 2, -1, 3, 4, -1));
  weights.bias = float_tensor(kF32, {3}, {10, 20, 30});
  const Tensor y = linear(context_, x, weights, DType::kBF16);
  EXPECT_EQ(y.dtype(), DType::kBF16);
  EXPECT_THAT(values_of(y), ElementsAre(11, 22, 29, 13, 24, 29));
}

TEST_F(Reference, LookupsGiveNanOutsideOfTheTable) {
  const Tensor table = float_tensor(DType::kBF16, {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(values_of(embedding(context_, int_tensor({1, -1, 0, 2}), table, kF32)),
              ElementsAre(3, 4, IsNan(), IsNan(), 1, 2, IsNan(), IsNan()));
  EXPECT_THAT(values_of(gather_rows(context_, table, int_tensor({1, 0x7FFFFFFF}))),
              ElementsAre(3, 4, IsNan(), IsNan()));
}

TEST_F(Reference, RopeRotatesTheHalvesOfEachHead) {
  // Position 1 turns the first pair by 90 degrees and leaves the second; position 5 is outside of the table.
  const Tensor table = float_tensor(kF32, {2, 4}, {1, 1, 0, 0, 0, 1, 1, 0});
  const Tensor x = float_tensor(kF32, {2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  context_.positions = int_tensor({1, 5});
  EXPECT_THAT(values_of(rope(context_, x, table)), ElementsAre(-3, 2, 1, 4, 0, 0, 0, 0));
}

TEST_F(Reference, StoreKvWritesSlotsAndSkipsThoseOutside) {
  const Tensor k = float_tensor(kF32, {3, 1, 1}, {1, 2, 3});
  const Tensor v = float_tensor(kF32, {3, 1, 1}, {4, 5, 6});
  const Tensor k_cache = empty_tensor(kF32, {2, 2, 1, 1});
  const Tensor v_cache = empty_tensor(kF32, {2, 2, 1, 1});
  context_.slots = int_tensor({3, -1, 0});
  store_kv(context_, k, v, k_cache, v_cache);
  EXPECT_THAT(values_of(k_cache), ElementsAre(3, 0, 0, 1));
  EXPECT_THAT(values_of(v_cache), ElementsAre(6, 0, 0, 4));
  context_.slots = int_tensor({4, 0x7FFFFFFF, 1});
  store_kv(context_, k, v, k_cache, v_cache);
  EXPECT_THAT(values_of(k_cache), ElementsAre(3, 3, 0, 1));
}

TEST_F(Reference, AttentionIsCausalReadsItsPagesAndGivesZerosForPadding) {
  // Keys of 0 weigh all visible values alike; page size 1, pages in disorder; two query heads share the KV head.
  const Tensor k_cache = empty_tensor(kF32, {4, 1, 1, 1});
  const Tensor v_cache = float_tensor(kF32, {4, 1, 1, 1}, {8, 6, 1, 100});
  context_.block_tables =
      int_tensor({2, 0, 1, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}).with_meta(TensorMeta(DType::kI32, Shape{2, 3}));
  const std::vector<int32_t> queries = {2, 1};
  const std::vector<int32_t> keys = {3, 0};
  context_.query_lengths = std::span<const int32_t>(queries);
  context_.kv_lengths = std::span<const int32_t>(keys);
  const Tensor q = float_tensor(kF32, {3, 2, 1}, {1, 1, 1, 1, 1, 1});
  EXPECT_THAT(values_of(paged_attention(context_, q, k_cache, v_cache, 1.0)), ElementsAre(4.5f, 4.5f, 5, 5, 0, 0));

  // Scores scale * q * k = 0, ln 3: weights 1/4 and 3/4.
  const Tensor some_keys = float_tensor(kF32, {4, 1, 1, 1}, {std::log(3.0f), 0, 0, 0});
  const std::vector<int32_t> two = {2};
  context_.query_lengths = std::span<const int32_t>(queries).last(1);
  context_.kv_lengths = std::span<const int32_t>(two);
  context_.block_tables = context_.block_tables.with_meta(TensorMeta(DType::kI32, Shape{1, 3}));
  const Tensor one = float_tensor(kF32, {1, 1, 1}, {2});
  EXPECT_THAT(values_of(paged_attention(context_, one, some_keys, v_cache, 0.5)),
              Pointwise(FloatNear(1e-6f), {0.25f * 1 + 0.75f * 8}));
}

TEST_F(Reference, StoreKvQuantisesEachTokenAndHeadByItsOwnScale) {
  // Two heads; the second token's second head is zeros, its first one holds an infinity.
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor k = float_tensor(kF32, {2, 2, 2}, {127, -64, 0.5f, 1.27f, infinity, 3, 0, 0});
  const Tensor cache = empty_tensor(DType::kI8, {2, 2, 2, 2});
  const Tensor other = empty_tensor(DType::kI8, {2, 2, 2, 2});
  const Tensor scales = empty_tensor(kF32, {2, 2, 2});
  context_.slots = int_tensor({3, 0});
  store_kv(context_, k, k, cache, other, {scales, empty_tensor(kF32, {2, 2, 2})});
  EXPECT_THAT(values_of(scales), ElementsAre(infinity, 0, 0, 0, 0, 0, 1, 0.01f));
  const std::span<const int8_t> values(cache.data_as<int8_t>(), 16);
  EXPECT_THAT(values.last(4), ElementsAre(127, -64, 50, 127));
  EXPECT_THAT(values.subspan(2, 2), ElementsAre(0, 0));
}

TEST_F(Reference, AttentionAppliesTheScalesOfAnInt8CacheOnce) {
  const Tensor k_cache = empty_tensor(DType::kI8, {2, 1, 1, 1});
  const Tensor v_cache = empty_tensor(DType::kI8, {2, 1, 1, 1});
  k_cache.data_as<int8_t>()[1] = 2;
  v_cache.data_as<int8_t>()[0] = 10;
  v_cache.data_as<int8_t>()[1] = -4;
  context_.block_tables = int_tensor({0, 1}).with_meta(TensorMeta(DType::kI32, Shape{1, 2}));
  const std::vector<int32_t> one = {1};
  const std::vector<int32_t> two = {2};
  context_.query_lengths = std::span<const int32_t>(one);
  context_.kv_lengths = std::span<const int32_t>(two);
  // Scores 0 and 4 * (2 * ln 3 / 16) * 2 = ln 3: weights 1/4 and 3/4, of the values 10 * 2 and -4 * 0.5.
  const KvScales scales{float_tensor(kF32, {2, 1, 1}, {1, std::log(3.0f) / 16}),
                        float_tensor(kF32, {2, 1, 1}, {2, 0.5f})};
  const Tensor q = float_tensor(kF32, {1, 1, 1}, {4});
  EXPECT_THAT(values_of(paged_attention(context_, q, k_cache, v_cache, 2.0, scales)),
              Pointwise(FloatNear(1e-5f), {0.25f * 20 - 0.75f * 2}));
}

TEST_F(Reference, ConvolutionKeepsItsStateFromStepToStep) {
  const Tensor weight = float_tensor(kF32, {1, 3}, {100, 10, 1});
  const Tensor bias = float_tensor(kF32, {1}, {0.5f});
  const Tensor state = float_tensor(kF32, {2, 2, 1}, {7, 7, 9, 9});
  context_.sequence_slots = int_tensor({1});
  const auto step = [&](std::initializer_list<float> x, int32_t kv_length) {
    const std::vector<int32_t> queries = {static_cast<int32_t>(x.size())};
    const std::vector<int32_t> keys = {kv_length};
    context_.query_lengths = std::span<const int32_t>(queries);
    context_.kv_lengths = std::span<const int32_t>(keys);
    return values_of(
        causal_conv1d(context_, float_tensor(kF32, {static_cast<int64_t>(x.size()), 1}, x), weight, bias, state));
  };
  EXPECT_THAT(step({1}, 1), ElementsAre(1.5f));  // at its start: the slot's 9s are of another sequence
  EXPECT_THAT(step({2, 3, 4}, 4), ElementsAre(12.5f, 123.5f, 234.5f));
  EXPECT_THAT(values_of(state), ElementsAre(7, 7, 3, 4));
  EXPECT_THAT(step({5}, 0), ElementsAre(0));  // padding
  EXPECT_THAT(values_of(state), ElementsAre(7, 7, 3, 4));
  context_.sequence_slots = int_tensor({-1});
  EXPECT_THAT(step({5}, 9), ElementsAre(5.5f));
  EXPECT_THAT(values_of(state), ElementsAre(7, 7, 3, 4));
}

TEST_F(Reference, QuantizeRoundsHalfToEvenThenAddsTheOffsetAndSaturates) {
  const Tensor x = float_tensor(kF32, {1, 6}, {1.25f, 1.75f, -1.25f, 1000, -1000, NAN});
  const Tensor half = float_tensor(kF32, {1}, {0.5f});
  const auto bytes = [](const Tensor& y) {
    return std::vector<int>(y.data_as<int8_t>(), y.data_as<int8_t>() + y.shape().elements());
  };
  EXPECT_THAT(bytes(quantize(context_, x, half, {})), ElementsAre(2, 4, -2, 127, -128, 0));
  EXPECT_THAT(bytes(quantize(context_, x, half, float_tensor(kF32, {1}, {3}))), ElementsAre(5, 7, 1, 127, -128, 0));
}

TEST_F(Reference, DynamicQuantizeGivesEachRowItsScale) {
  const Tensor x = float_tensor(kF32, {3, 3}, {127, -63.5f, 2.5f, 0, 0, 0, 1, NAN, 2});
  const Quantized y = dynamic_quantize(context_, x);
  EXPECT_EQ(y.scales.shape(), Shape{3});
  EXPECT_THAT(values_of(y.scales), ElementsAre(1, 0, IsNan()));
  const auto* bytes = y.values.data_as<int8_t>();
  EXPECT_THAT(std::vector<int>(bytes, bytes + 6), ElementsAre(127, -64, 2, 0, 0, 0));
  const Quantized smooth = dynamic_quantize(context_, x, float_tensor(kF32, {3}, {1, 4, 1}));
  EXPECT_THAT(values_of(smooth.scales), ElementsAre(2, 0, IsNan()));
  EXPECT_EQ(smooth.values.data_as<int8_t>()[1], -127);
}

TEST_F(Reference, Int8LinearSumsExactlyThenScalesThenAddsTheBias) {
  const auto bytes = [](const Shape& shape, std::initializer_list<int> values) {
    const Tensor tensor = empty_tensor(DType::kI8, shape);
    std::copy(values.begin(), values.end(), tensor.data_as<int8_t>());
    return tensor;
  };
  const Tensor x = bytes({2, 3}, {1, -128, 127, 0, 0, 0});
  const Tensor weight = bytes({2, 3}, {-128, -128, 127, 1, 2, 3});
  Int8LinearTerms terms{.scale = float_tensor(kF32, {2}, {0.5f, 2}), .row_scales = {}, .quant_bias = {}, .bias = {}};
  const float first = -128 + 128 * 128 + 127 * 127;
  const float second = 1 - 2 * 128 + 3 * 127;
  EXPECT_THAT(values_of(int8_linear(context_, x, weight, terms, kF32)), ElementsAre(first / 2, second * 2, 0, 0));
  terms.row_scales = float_tensor(kF32, {2}, {0.25f, NAN});
  terms.quant_bias = int_tensor({1, -1});
  terms.bias = float_tensor(kF32, {2}, {1000, 2000});
  EXPECT_THAT(values_of(int8_linear(context_, x, weight, terms, kF32)),
              ElementsAre((first + 1) / 8 + 1000, (second - 1) / 2 + 2000, IsNan(), IsNan()));
  EXPECT_EQ(int8_linear(context_, x, weight, terms, DType::kBF16).dtype(), DType::kBF16);
}

TEST_F(Reference, ALinearLayerWithInt8WeightsQuantisesItsInput) {
  const Tensor x = float_tensor(kF32, {1, 2}, {127, -63.5f});
  const Tensor weight = empty_tensor(DType::kI8, {1, 2});
  weight.data_as<int8_t>()[0] = 2;
  weight.data_as<int8_t>()[1] = 1;
  LinearWeights weights{.weight = weight, .bias = {}};
  weights.scale = float_tensor(kF32, {1}, {0.5f});
  // 127 and -64 (half to even), the scale of the token is one.
  EXPECT_THAT(values_of(linear(context_, x, weights)), ElementsAre((2 * 127 - 64) * 0.5f));
  weights.input_scale = float_tensor(kF32, {1}, {2});
  weights.input_offset = float_tensor(kF32, {1}, {3});
  weights.quant_bias = int_tensor({10});
  // 63.5 and -31.75 become 64 + 3 and -32 + 3.
  EXPECT_THAT(values_of(linear(context_, x, weights)), ElementsAre((2 * 67 - 29 + 10) * 0.5f));
}

TEST_F(Reference, FusedOperatorsGiveWhatTheyReplace) {
  const Tensor x = float_tensor(kF32, {1, 2}, {1, 1});
  const Tensor residual = float_tensor(kF32, {1, 2}, {2, 3});
  const Tensor weight = float_tensor(kF32, {2}, {1, 2});
  const float scale = 1.0f / std::sqrt(12.5f);
  const NormAndSum plain = add_rms_norm(context_, x, residual, weight, 0);
  EXPECT_THAT(values_of(plain.sum), ElementsAre(3, 4));
  EXPECT_THAT(values_of(plain.y), Pointwise(FloatNear(1e-6f), {3 * scale, 8 * scale}));
  EXPECT_THAT(values_of(add_rms_norm_bias(context_, x, residual, weight, weight, 0).y),
              Pointwise(FloatNear(1e-6f), {3 * scale + 1, 8 * scale + 2}));
  EXPECT_THAT(values_of(swiglu(context_, float_tensor(kF32, {1, 4}, {1, -2, 10, 20}))),
              Pointwise(FloatNear(1e-5f), {7.310586f, -4.768117f}));

  // One head of each of q, k and v; position 1 turns by 90 degrees; norms of rows of equal size are 1 or -1.
  context_.positions = int_tensor({1});
  const Tensor ones = float_tensor(kF32, {2}, {1, 1});
  const Tensor table = float_tensor(kF32, {2, 2}, {1, 0, 0, 1});
  const Qkv heads = split_qkv_rms_norm_rope(context_, float_tensor(kF32, {1, 6}, {2, -2, 3, 3, 7, 8}),
                                            {.q_weight = ones, .k_weight = ones}, table, 1, 1);
  EXPECT_THAT(values_of(heads.q), Pointwise(FloatNear(1e-6f), {1, 1}));
  EXPECT_THAT(values_of(heads.k), Pointwise(FloatNear(1e-6f), {-1, 1}));
  EXPECT_THAT(values_of(heads.v), ElementsAre(7, 8));
}

TEST_F(Reference, CatNestsWhenThereAreMoreTensorsThanAnOperatorTakes) {
  std::vector<Tensor> parts;
  std::vector<float> expected;
  for (int i = 0; i < 20; ++i) {
    parts.push_back(float_tensor(kF32, {1, 1}, {static_cast<float>(i)}));
    expected.push_back(static_cast<float>(i));
  }
  EXPECT_EQ(values_of(cat(context_, parts, 0)), expected);
  EXPECT_EQ(values_of(cat(context_, parts, 1)), expected);
  EXPECT_THROW(cat(context_, {}, 0), Error);
}

TEST_F(Reference, BatchedProductsMultiplyEachPair) {
  const Tensor a = float_tensor(kF32, {2, 1, 2}, {1, 2, 3, 4});
  const Tensor b = float_tensor(kF32, {2, 2, 2}, {1, 0, 0, 1, 1, 1, 1, -1});
  EXPECT_THAT(values_of(batch_matmul(context_, a, b)), ElementsAre(1, 2, 7, -1));
  const Tensor y = transpose_batch_matmul(context_, a, b, false);
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2}));
  EXPECT_THAT(values_of(y), ElementsAre(1, 2, 7, -1));
}

TEST_F(Reference, PackingIntoAnUnknownFormatIsRefused) {
  const Tensor weight = float_tensor(kF32, {1, 2}, {1, 2});
  EXPECT_THAT(values_of(pack_linear_weight(context_, weight)), ElementsAre(1, 2));
  EXPECT_THROW(pack_linear_weight(context_, weight, "n99"), Error);
}

}  // namespace
}  // namespace reprise::ops
