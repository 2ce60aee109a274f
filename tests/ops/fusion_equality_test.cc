// Every exact fused operator leaves, bit by bit, what the plain operators that it replaces leave: for each instruction
// set, dtype and size, alone and as a part of a larger batch.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/batch_matmul.h"
#include "ops/copies.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fused_norm.h"
#include "ops/host_tensor.h"
#include "ops/in_place.h"
#include "ops/kv_cache.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/rope.h"
#include "ops/scatter.h"
#include "ops/split_qkv.h"
#include "ops/swiglu.h"
#include "ops/views.h"

namespace reprise::ops {
namespace {

constexpr int64_t kWidths[] = {1, 2, 15, 16, 17, 31, 33, 64, 129, 1030};
constexpr int64_t kRows = 5;

/// An int8 cache.
struct KvTensors {
  Tensor k;
  Tensor v;
  KvScales scales;
};

class FusionEquality : public ::testing::TestWithParam<kernels::cpu::InstructionSet> {
 protected:
  FusionEquality() { kernels::cpu::register_cpu_kernels(registry_, GetParam()); }

  /// Values of very different sizes; the row before the last is zeros, the last holds an infinity and a NaN.
  Tensor values(DType dtype, const Shape& shape) {
    const Tensor uniform = random_tensor(kF32, shape, random_);
    const int64_t columns = shape.size(shape.rank() - 1);
    auto* data = uniform.data_as<float>();
    const int64_t count = shape.elements();
    for (int64_t i = 0; i < count; ++i) data[i] *= i % 7 == 0 ? 30.0f : 1.0f;
    for (int64_t i = count - 2 * columns; i < count - columns; ++i) data[i] = 0;
    data[count - 1] = std::numeric_limits<float>::quiet_NaN();
    data[count - columns] = std::numeric_limits<float>::infinity();
    return float_tensor(dtype, shape, std::span<const float>(data, static_cast<size_t>(count)));
  }
  Tensor vector(int64_t width) { return random_tensor(kF32, {width}, random_); }
  Tensor scales(int64_t width) {
    const Tensor result = vector(width);
    for (int64_t i = 0; i < width; ++i) result.data_as<float>()[i] = result.data_as<float>()[i] * 0.25f + 0.4f;
    return result;
  }

  void expect_equal(const Tensor& got, const Tensor& expected, const char* what) {
    stream_->synchronize();
    ASSERT_EQ(got.meta(), expected.meta()) << what;
    ASSERT_TRUE(got.is_contiguous());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.meta().contiguous_bytes()), 0)
        << what << " of " << got.meta().to_string();
  }

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 1});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
  std::mt19937 random_{7};
};
INSTANTIATE_TEST_SUITE_P(Cpu, FusionEquality, ::testing::ValuesIn(kernels::cpu::available_instruction_sets()),
                         [](const auto& info_of_test) { return std::string(name_of(info_of_test.param)); });

TEST_P(FusionEquality, NormsOfSums) {
  for (const DType dtype : kFloats) {
    for (const int64_t width : kWidths) {
      const Tensor x = values(dtype, {kRows, width});
      const Tensor residual = random_tensor(dtype, {kRows, width}, random_);
      const Tensor weight = vector(width);
      const Tensor bias = vector(width);
      const Tensor sum = add(context_, x, residual);
      const Tensor y = rms_norm(context_, sum, weight, 1e-6);

      const NormAndSum plain = add_rms_norm(context_, x, residual, weight, 1e-6);
      expect_equal(plain.y, y, "add_rms_norm y");
      expect_equal(plain.sum, sum, "add_rms_norm sum");
      const NormAndSum biased = add_rms_norm_bias(context_, x, residual, weight, bias, 1e-6);
      expect_equal(biased.y, rms_norm_bias(context_, sum, weight, bias, 1e-6), "add_rms_norm_bias y");
      expect_equal(biased.sum, sum, "add_rms_norm_bias sum");
      const CastNormAndSum cast_norm = add_rms_norm_cast(context_, x, residual, weight, 1e-6);
      expect_equal(cast_norm.y_float32, cast(context_, y, kF32), "add_rms_norm_cast y_float32");
      expect_equal(cast_norm.y, y, "add_rms_norm_cast y");
      expect_equal(cast_norm.sum, sum, "add_rms_norm_cast sum");
    }
  }
}

TEST_P(FusionEquality, QuantizedNormsOfSums) {
  for (const DType dtype : kFloats) {
    for (const int64_t width : kWidths) {
      const Tensor x = values(dtype, {kRows, width});
      const Tensor residual = random_tensor(dtype, {kRows, width}, random_);
      const Tensor weight = vector(width);
      const Tensor sum = add(context_, x, residual);
      const Tensor y = rms_norm(context_, sum, weight, 1e-6);
      const Tensor bias = vector(width);
      const Tensor with_bias = rms_norm_bias(context_, sum, weight, bias, 1e-6);
      const Tensor one = float_tensor(kF32, {1}, {0.013f});
      const Tensor offset = float_tensor(kF32, {1}, {-7});
      for (const auto& [scale, shift] : {std::pair{one, Tensor()}, {one, offset}, {scales(width), offset}}) {
        const NormAndSum fused = add_rms_norm_quantize(context_, x, residual, weight, scale, shift, 1e-6);
        expect_equal(fused.y, quantize(context_, y, scale, shift), "add_rms_norm_quantize y");
        expect_equal(fused.sum, sum, "add_rms_norm_quantize sum");
        const NormAndSum biased = add_rms_norm_bias_quantize(context_, x, residual, weight, bias, scale, shift, 1e-6);
        expect_equal(biased.y, quantize(context_, with_bias, scale, shift), "add_rms_norm_bias_quantize y");
        expect_equal(biased.sum, sum, "add_rms_norm_bias_quantize sum");
      }
      for (const Tensor& smooth : {Tensor(), scales(width)}) {
        const QuantizedNormAndSum fused = add_rms_norm_dynamic_quantize(context_, x, residual, weight, smooth, 1e-6);
        const Quantized expected = dynamic_quantize(context_, y, smooth);
        expect_equal(fused.y.values, expected.values, "add_rms_norm_dynamic_quantize values");
        expect_equal(fused.y.scales, expected.scales, "add_rms_norm_dynamic_quantize scales");
        expect_equal(fused.sum, sum, "add_rms_norm_dynamic_quantize sum");
        const QuantizedNormAndSum biased =
            add_rms_norm_bias_dynamic_quantize(context_, x, residual, weight, bias, smooth, 1e-6);
        const Quantized other = dynamic_quantize(context_, with_bias, smooth);
        expect_equal(biased.y.values, other.values, "add_rms_norm_bias_dynamic_quantize values");
        expect_equal(biased.y.scales, other.scales, "add_rms_norm_bias_dynamic_quantize scales");
        expect_equal(biased.sum, sum, "add_rms_norm_bias_dynamic_quantize sum");
      }
    }
  }
}

TEST_P(FusionEquality, EmbeddingsWithTheirNorm) {
  const Tensor ids = int_tensor({3, 0, -1, 6, 3});
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const int64_t width : kWidths) {
        const Tensor table = random_tensor(from, {6, width}, random_);
        const Tensor weight = vector(width);
        const NormAndSum fused = embedding_rms_norm(context_, ids, table, weight, to, 1e-5);
        const Tensor hidden = embedding(context_, ids, table, to);
        expect_equal(fused.sum, hidden, "hidden");
        const Tensor y = rms_norm(context_, hidden, weight, 1e-5);
        expect_equal(fused.y, y, "y");
        const Tensor bias = vector(width);
        const Tensor scale = scales(width);
        const Tensor biased = rms_norm_bias(context_, hidden, weight, bias, 1e-5);
        for (const bool with_bias : {false, true}) {
          const Tensor& normed = with_bias ? biased : y;
          const Tensor added = with_bias ? bias : Tensor();
          const NormAndSum quantized =
              embedding_rms_norm_quantize(context_, ids, table, weight, added, scale, {}, to, 1e-5);
          expect_equal(quantized.sum, hidden, "hidden, quantized");
          expect_equal(quantized.y, quantize(context_, normed, scale, {}), "y, quantized");
          const QuantizedNormAndSum dynamic =
              embedding_rms_norm_dynamic_quantize(context_, ids, table, weight, added, scale, to, 1e-5);
          const Quantized expected = dynamic_quantize(context_, normed, scale);
          expect_equal(dynamic.sum, hidden, "hidden, dynamic");
          expect_equal(dynamic.y.values, expected.values, "values");
          expect_equal(dynamic.y.scales, expected.scales, "scales");
        }
      }
    }
  }
}

TEST_P(FusionEquality, GatedActivationsApartAndAsHalvesOfOneProduct) {
  for (const DType dtype : kFloats) {
    for (const int64_t width : kWidths) {
      const Tensor merged = values(dtype, {kRows, 2 * width});
      const Tensor gate = slice(context_, merged, 1, 0, width);
      const Tensor up = slice(context_, merged, 1, width, 2 * width);
      const Tensor y = mul(context_, silu(context_, gate), up);
      expect_equal(swiglu(context_, merged), y, "swiglu of halves");
      expect_equal(swiglu(context_, copy(context_, gate), copy(context_, up)), y, "swiglu");
      const Tensor one = float_tensor(kF32, {1}, {0.05f});
      const Tensor offset = float_tensor(kF32, {1}, {5});
      expect_equal(swiglu_quantize(context_, gate, up, one, {}), quantize(context_, y, one, {}), "swiglu_quantize");
      const Tensor each = scales(width);
      expect_equal(swiglu_quantize(context_, gate, up, each, offset), quantize(context_, y, each, offset),
                   "swiglu_quantize by columns");
      for (const Tensor& smooth : {Tensor(), each}) {
        const Quantized fused = swiglu_dynamic_quantize(context_, gate, up, smooth);
        const Quantized expected = dynamic_quantize(context_, y, smooth);
        expect_equal(fused.values, expected.values, "swiglu_dynamic_quantize values");
        expect_equal(fused.scales, expected.scales, "swiglu_dynamic_quantize scales");
      }
    }
  }
}

TEST_P(FusionEquality, HeadsOfOneMergedProduct) {
  context_.positions = int_tensor({4, 0, 9, -1, 10});
  for (const DType dtype : kFloats) {
    for (const int64_t dim : {2, 6, 16, 30, 34, 64, 80, 128, 130}) {
      for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{1, 1}, {6, 2}, {3, 3}}) {
        const Tensor qkv = values(dtype, {kRows, (heads + 2 * kv_heads) * dim});
        const Tensor table = random_tensor(kF32, {10, dim}, random_);
        const Tensor all = reshape(context_, qkv, {kRows, heads + 2 * kv_heads, dim});
        const Tensor q = slice(context_, all, 1, 0, heads);
        const Tensor k = slice(context_, all, 1, heads, heads + kv_heads);
        const Tensor v = slice(context_, all, 1, heads + kv_heads, heads + 2 * kv_heads);
        const QkNorm norm{.q_weight = vector(dim), .k_weight = vector(dim), .epsilon = 1e-6};
        const Qkv fused = split_qkv_rms_norm_rope(context_, qkv, norm, table, heads, kv_heads);
        expect_equal(fused.q, rope(context_, rms_norm(context_, q, norm.q_weight, 1e-6), table), "q");
        expect_equal(fused.k, rope(context_, rms_norm(context_, k, norm.k_weight, 1e-6), table), "k");
        EXPECT_EQ(fused.v.data(), v.data());
        EXPECT_EQ(fused.v.meta(), v.meta());

        QkNorm biased = norm;
        biased.q_bias = vector(dim);
        biased.k_bias = vector(dim);
        const Qkv with_bias = split_qkv_rms_norm_rope(context_, qkv, biased, table, heads, kv_heads);
        const auto normed = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
          return rope(context_, rms_norm_bias(context_, x, weight, bias, 1e-6), table);
        };
        expect_equal(with_bias.q, normed(q, norm.q_weight, biased.q_bias), "q with bias");
        expect_equal(with_bias.k, normed(k, norm.k_weight, biased.k_bias), "k with bias");

        context_.slots = int_tensor({7, -1, 0, 8, 3});
        const Shape cache = {4, 2, kv_heads, dim};
        const Tensor k_cache = random_tensor(dtype, cache, random_);
        const Tensor v_cache = random_tensor(dtype, cache, random_);
        const Tensor k_stored = copy(context_, k_cache);
        const Tensor v_stored = copy(context_, v_cache);
        store_kv(context_, with_bias.k, with_bias.v, k_stored, v_stored);
        expect_equal(split_qkv_rms_norm_rope_store(context_, qkv, biased, table, heads, kv_heads, k_cache, v_cache),
                     with_bias.q, "q beside the cache");
        expect_equal(k_cache, k_stored, "cache of keys");
        expect_equal(v_cache, v_stored, "cache of values");
        const auto int8_cache = [&] {
          return KvTensors{empty_tensor(DType::kI8, cache),
                           empty_tensor(DType::kI8, cache),
                           {empty_tensor(kF32, {4, 2, kv_heads}), empty_tensor(kF32, {4, 2, kv_heads})}};
        };
        const KvTensors stored = int8_cache();
        const KvTensors fused_cache = int8_cache();
        store_kv(context_, with_bias.k, with_bias.v, stored.k, stored.v, stored.scales);
        expect_equal(split_qkv_rms_norm_rope_store(context_, qkv, biased, table, heads, kv_heads, fused_cache.k,
                                                   fused_cache.v, fused_cache.scales),
                     with_bias.q, "q beside the int8 cache");
        expect_equal(fused_cache.k, stored.k, "int8 cache of keys");
        expect_equal(fused_cache.v, stored.v, "int8 cache of values");
        expect_equal(fused_cache.scales.k, stored.scales.k, "scales of keys");
        expect_equal(fused_cache.scales.v, stored.scales.v, "scales of values");
      }
    }
  }
}

TEST_P(FusionEquality, TransposedProductsForAnyNumberOfRows) {
  for (const DType dtype : kFloats) {
    for (const int64_t columns : {1, 16, 31, 33, 80}) {
      const Tensor a = random_tensor(dtype, {37, 3, 19}, random_);
      const Tensor b = random_tensor(dtype, {3, 19, columns}, random_);
      const Tensor product = batch_matmul(context_, transpose(context_, a, 0, 1), b);
      const Tensor expected = copy(context_, transpose(context_, product, 0, 1));
      expect_equal(transpose_batch_matmul(context_, a, b, true), expected, "transposed before and after");
      const Tensor turned = copy(context_, transpose(context_, a, 0, 1));
      expect_equal(transpose_batch_matmul(context_, turned, b, false), expected, "transposed after");
      for (const int64_t row : {0, 17, 36}) {
        expect_equal(transpose_batch_matmul(context_, slice(context_, a, 0, row, row + 1), b, true),
                     copy(context_, slice(context_, expected, 0, row, row + 1)), "one row alone");
      }
    }
  }
}

TEST_P(FusionEquality, OneRowAloneGivesWhatItGivesInABatch) {
  for (const DType dtype : kFloats) {
    const int64_t width = 100;
    const Tensor x = values(dtype, {kRows, width});
    const Tensor residual = random_tensor(dtype, {kRows, width}, random_);
    const Tensor weight = vector(width);
    const QuantizedNormAndSum all = add_rms_norm_dynamic_quantize(context_, x, residual, weight, {}, 1e-6);
    const Quantized gated = swiglu_dynamic_quantize(context_, x, residual);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto cut = [&](const Tensor& tensor) { return slice(context_, tensor, 0, row, row + 1); };
      const QuantizedNormAndSum one = add_rms_norm_dynamic_quantize(context_, cut(x), cut(residual), weight, {}, 1e-6);
      expect_equal(one.y.values, copy(context_, cut(all.y.values)), "values");
      expect_equal(one.y.scales, copy(context_, cut(all.y.scales)), "scales");
      expect_equal(one.sum, copy(context_, cut(all.sum)), "sum");
      const Quantized one_gated = swiglu_dynamic_quantize(context_, cut(x), cut(residual));
      expect_equal(one_gated.values, copy(context_, cut(gated.values)), "gated values");
      expect_equal(one_gated.scales, copy(context_, cut(gated.scales)), "gated scales");
    }
  }
}

TEST_P(FusionEquality, InPlaceVariantsLeaveTheSameBits) {
  context_.positions = int_tensor({4, 0, 9, -1, 10});
  for (const DType dtype : kFloats) {
    for (const int64_t width : {2, 30, 128}) {
      const Tensor x = values(dtype, {kRows, 3, width});
      const Tensor b = random_tensor(dtype, {kRows, 3, width}, random_);
      const Tensor weight = vector(width);
      const Tensor table = random_tensor(kF32, {10, width}, random_);
      const auto check = [&](const char* op, const Tensor& expected, const std::function<void(const Tensor&)>& change) {
        ASSERT_NE(find_in_place_variant(registry_, registry_.get(op)), nullptr) << op;
        const Tensor y = copy(context_, x);
        change(y);
        expect_equal(y, expected, op);
      };
      check("add", add(context_, x, b), [&](const Tensor& y) { add_(context_, y, b); });
      check("mul", mul(context_, x, b), [&](const Tensor& y) { mul_(context_, y, b); });
      check("divide", divide(context_, x, b), [&](const Tensor& y) { divide_(context_, y, b); });
      check("silu", silu(context_, x), [&](const Tensor& y) { silu_(context_, y); });
      check("reciprocal", reciprocal(context_, x), [&](const Tensor& y) { reciprocal_(context_, y); });
      check("rms_norm", rms_norm(context_, x, weight, 1e-6),
            [&](const Tensor& y) { rms_norm_(context_, y, weight, 1e-6); });
      check("rope", rope(context_, x, table), [&](const Tensor& y) { rope_(context_, y, table); });
      const Tensor rows = int_tensor({4, 7, 1});
      const Tensor updates = random_tensor(dtype, {3, 3, width}, random_);
      check("scatter_rows", scatter_rows(context_, x, rows, updates),
            [&](const Tensor& y) { scatter_rows_(context_, y, rows, updates); });
    }
  }
}

TEST(InPlace, OperatorsWithoutAVariantHaveNone) {
  const Registry registry = make_catalogue();
  for (const char* op : {"cast", "linear", "add_", "store_kv", "add_rms_norm", "reshape"}) {
    EXPECT_EQ(find_in_place_variant(registry, registry.get(op)), nullptr) << op;
  }
  // copy_ takes another argument than copy: the name alone does not make it the variant.
  EXPECT_EQ(find_in_place_variant(registry, registry.get("copy")), nullptr);
}

}  // namespace
}  // namespace reprise::ops
