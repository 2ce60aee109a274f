// Cases of operators that replace several, of those in place, and of quantisation.

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "ops/conformance_cases.h"
#include "ops/host_tensor.h"

namespace reprise::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::string describe_operands(const std::vector<Tensor>& inputs) {
  std::string text;
  for (const Tensor& input : inputs) text += fmt::format(" {}", input.defined() ? input.meta().to_string() : "none");
  return text;
}

/// Rows with the values that quantisation has rules for.
Tensor special_rows(DType dtype) {
  std::vector<float> values = {0,    -0.0f, 0,  0,     0,     // a row of zeros
                               1,    -2,    3,  -4,    0.5f,  //
                               kNaN, 1,     -1, 100,   -100,  //
                               1,    2,     3,  4,     kNaN,  //
                               1,    -1,    2,  -3e5f, kInfinity,
                               2.5f, 3.5f,  63, 127,   -0.5f,  // ties where the scale is 1
                               3e8f, -3e8f, 1,  0,     -1e30f};
  return float_tensor(dtype, {7, 5}, values);
}

/// Positive and not far from 1.
Tensor random_scales(int64_t width, std::mt19937& random) {
  const Tensor scales = random_tensor(DType::kF32, {width}, random);
  for (int64_t i = 0; i < width; ++i) scales.data_as<float>()[i] = scales.data_as<float>()[i] * 0.25f + 0.5f;
  return scales;
}

/// An int8 may fall to its neighbour where the value before it differs by float32 arithmetic.
Bound of_int8() { return {.absolute = 1, .relative = 0}; }

struct Pair {
  Tensor a;
  Tensor b;
};

std::vector<Pair> pairs_of(DType dtype, int64_t width, std::mt19937& random) {
  const Tensor halves = random_tensor(dtype, {3, 2 * width}, random);
  TensorMeta half = halves.meta();
  half.shape[1] = width;
  return {{random_tensor(dtype, {3, width}, random), random_tensor(dtype, {3, width}, random)},
          {random_tensor(dtype, {0, width}, random), random_tensor(dtype, {0, width}, random)},
          {random_tensor(dtype, {2, 3, width}, random), random_tensor(dtype, {2, 3, width}, random)},
          {random_strided_tensor(dtype, {3, width}, 1, random), random_tensor(dtype, {3, width}, random)},
          {halves.with_meta(half), halves.with_meta(half, static_cast<size_t>(width) * size_of(dtype))}};
}

void add_in_place(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  for (const int64_t width : {1, 31, 129}) {
    for (const auto& [a, b] : pairs_of(dtype, width, random)) {
      const std::string name = describe_operands({a, b});
      for (const char* op : {"add_", "mul_", "divide_"}) cases.push_back({.op = op, .name = name, .inputs = {a, b}});
      cases.push_back({.op = "divide", .name = name, .inputs = {a, b}});
      cases.push_back({.op = "reciprocal", .name = name, .inputs = {a}});
      cases.push_back({.op = "reciprocal_", .name = name, .inputs = {a}});
      cases.push_back({.op = "silu_", .name = name, .inputs = {a}, .bound = rounded(dtype, 1e-9, 1e-6)});
      cases.push_back({.op = "copy_", .name = name, .inputs = {a, b}});
      cases.push_back({.op = "swiglu", .name = name, .inputs = {a, b}, .bound = rounded(dtype, 1e-9, 2e-6)});
      cases.push_back({.op = "rms_norm_",
                       .name = name,
                       .inputs = {a, random_tensor(DType::kF32, {width}, random)},
                       .attributes = {1e-6},
                       .bound = rounded(dtype, 1e-9, 2e-6)});
      cases.push_back(
          {.op = "rms_norm_bias",
           .name = name,
           .inputs = {a, random_tensor(DType::kF32, {width}, random), random_tensor(DType::kF32, {width}, random)},
           .attributes = {1e-6},
           .bound = rounded(dtype, 1e-6, 2e-6)});
    }
  }
  for (const int64_t dim : {2, 34, 128}) {
    for (const Tensor& x :
         {random_tensor(dtype, {4, 3, dim}, random), random_strided_tensor(dtype, {4, 3, dim}, 1, random)}) {
      cases.push_back({.op = "rope_",
                       .name = describe_operands({x}),
                       .inputs = {x, int_tensor({4, 0, 5, -1}), random_tensor(DType::kF32, {5, dim}, random)},
                       .bound = rounded(dtype, 3e-7)});
    }
  }
}

void add_moves(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  for (const auto& [axis, other] : {std::pair<int64_t, Shape>{0, {5, 3, 7}}, {1, {2, 4, 7}}, {2, {2, 3, 9}}}) {
    const Tensor a = random_tensor(dtype, {2, 3, 7}, random);
    const Tensor b = random_tensor(dtype, other, random);
    cases.push_back({.op = "cat",
                     .name = fmt::format("three along {}", axis),
                     .inputs = {a, b, a, {}, {}, {}, {}, {}},
                     .attributes = {axis, axis == 0}});
    cases.push_back({.op = "cat",
                     .name = fmt::format("eight along {}", axis),
                     .inputs = {b, a, b, a, b, a, b, a},
                     .attributes = {axis, axis == 0}});
  }
  const Tensor none = random_tensor(dtype, {0, 3}, random);
  const Tensor some = random_tensor(dtype, {2, 3}, random);
  cases.push_back(
      {.op = "cat", .name = "one", .inputs = {some, {}, {}, {}, {}, {}, {}, {}}, .attributes = {int64_t{0}, false}});
  cases.push_back({.op = "cat",
                   .name = "with an empty one",
                   .inputs = {none, some, none, {}, {}, {}, {}, {}},
                   .attributes = {int64_t{0}, false}});
  for (const char* op : {"scatter_rows", "scatter_rows_"}) {
    for (const Shape& shape : {Shape{7, 5}, Shape{7, 2, 33}}) {
      Shape updates = shape;
      updates[0] = 4;
      cases.push_back({.op = op,
                       .name = shape.to_string(),
                       .inputs = {random_tensor(dtype, shape, random), int_tensor({6, -1, 0, 7}),
                                  random_tensor(dtype, updates, random)}});
    }
  }
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{0, 1}, {1, 2}, {2, 0}, {1, 1}}) {
    cases.push_back({.op = "transpose",
                     .name = fmt::format("{} and {}", a, b),
                     .inputs = {random_tensor(dtype, {3, 4, 10}, random)},
                     .attributes = {a, b}});
  }
}

void add_matmul(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  struct Size {
    int64_t batches, rows, inner, columns;
  };
  for (const Size& size : {Size{1, 1, 1, 1}, Size{2, 3, 5, 7}, Size{3, 5, 33, 16}, Size{2, 37, 8, 45}, Size{0, 2, 3, 4},
                           Size{2, 0, 3, 4}, Size{2, 2, 0, 4}, Size{1, 4, 129, 64}}) {
    const Tensor b = random_tensor(dtype, {size.batches, size.inner, size.columns}, random);
    const Tensor a = random_tensor(dtype, {size.batches, size.rows, size.inner}, random);
    const Tensor turned = random_tensor(dtype, {size.rows, size.batches, size.inner}, random);
    const Bound bound = rounded(dtype, 1e-7 * static_cast<double>(size.inner), 1e-6);
    cases.push_back({.op = "batch_matmul", .name = describe_operands({a, b}), .inputs = {a, b}, .bound = bound});
    cases.push_back({.op = "transpose_batch_matmul",
                     .name = describe_operands({a, b}),
                     .inputs = {a, b},
                     .attributes = {false},
                     .bound = bound});
    cases.push_back({.op = "transpose_batch_matmul",
                     .name = describe_operands({turned, b}),
                     .inputs = {turned, b},
                     .attributes = {true},
                     .bound = bound});
  }
  const Tensor a = random_strided_tensor(dtype, {2, 3, 20}, 2, random);
  const Tensor b = random_strided_tensor(dtype, {2, 20, 17}, 2, random);
  cases.push_back({.op = "batch_matmul", .name = "strided", .inputs = {a, b}, .bound = rounded(dtype, 2e-6, 1e-6)});
}

void add_quantize(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  std::vector<Tensor> rows = {special_rows(dtype)};
  for (const int64_t width : {1, 5, 16, 129}) {
    rows.push_back(random_tensor(dtype, {3, width}, random));
    rows.push_back(random_strided_tensor(dtype, {4, 2, width}, 2, random));
    rows.push_back(random_tensor(dtype, {0, width}, random));
  }
  for (const Tensor& x : rows) {
    const int64_t width = x.size(x.rank() - 1);
    const Tensor scale = float_tensor(DType::kF32, {1}, {0.01f});
    const Tensor offset = float_tensor(DType::kF32, {1}, {-3});
    const Tensor scales = random_scales(width, random);
    const Tensor ones = float_tensor(DType::kF32, {1}, {1});
    std::vector<float> steps(static_cast<size_t>(width));
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<float>(i % 255) - 127.0f;
    const Tensor offsets = float_tensor(DType::kF32, {width}, steps);
    cases.push_back({.op = "quantize", .name = describe_operands({x}), .inputs = {x, scale, {}}});
    cases.push_back({.op = "quantize", .name = describe_operands({x, offset}), .inputs = {x, scale, offset}});
    cases.push_back({.op = "quantize", .name = describe_operands({x, offsets}), .inputs = {x, scales, offsets}});
    cases.push_back({.op = "quantize", .name = describe_operands({x, ones}), .inputs = {x, ones, offsets}});
    cases.push_back({.op = "dynamic_quantize", .name = describe_operands({x}), .inputs = {x, {}}});
    cases.push_back({.op = "dynamic_quantize", .name = describe_operands({x, scales}), .inputs = {x, scales}});
  }
  cases.push_back(
      {.op = "dynamic_quantize", .name = "no columns", .inputs = {random_tensor(dtype, {3, 0}, random), {}}});
}

void add_norms(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  for (const int64_t width : {1, 3, 31, 64, 129, 1030}) {
    const Tensor weight = random_tensor(DType::kF32, {width}, random);
    const Tensor bias = random_tensor(DType::kF32, {width}, random);
    const Tensor scale = float_tensor(DType::kF32, {1}, {0.02f});
    const Tensor scales = random_scales(width, random);
    for (const auto& [x, residual] : pairs_of(dtype, width, random)) {
      const std::string name = describe_operands({x, residual});
      const std::vector<Attribute> epsilon = {1e-6};
      const auto add = [&](const char* op, std::vector<Tensor> more, Bound bound) {
        std::vector<Tensor> inputs = {x, residual, weight};
        inputs.insert(inputs.end(), more.begin(), more.end());
        cases.push_back({.op = op,
                         .name = name + describe_operands(more),
                         .inputs = inputs,
                         .attributes = epsilon,
                         .bound = bound});
      };
      add("add_rms_norm", {}, rounded(dtype, 1e-9, 2e-6));
      add("add_rms_norm_bias", {bias}, rounded(dtype, 1e-6, 2e-6));
      add("add_rms_norm_cast", {}, rounded(dtype, 1e-9, 2e-6));
      add("add_rms_norm_quantize", {scale, {}}, of_int8());
      add("add_rms_norm_quantize", {scales, scale}, of_int8());
      add("add_rms_norm_dynamic_quantize", {{}}, of_int8());
      add("add_rms_norm_dynamic_quantize", {scales}, of_int8());
      add("add_rms_norm_bias_quantize", {bias, scale, {}}, of_int8());
      add("add_rms_norm_bias_quantize", {bias, scales, scale}, of_int8());
      add("add_rms_norm_bias_dynamic_quantize", {bias, {}}, of_int8());
      add("add_rms_norm_bias_dynamic_quantize", {bias, scales}, of_int8());
      cases.push_back({.op = "swiglu_quantize", .name = name, .inputs = {x, residual, scale, {}}, .bound = of_int8()});
      cases.push_back(
          {.op = "swiglu_quantize", .name = name, .inputs = {x, residual, scales, scale}, .bound = of_int8()});
      cases.push_back({.op = "swiglu_dynamic_quantize", .name = name, .inputs = {x, residual, {}}, .bound = of_int8()});
      cases.push_back(
          {.op = "swiglu_dynamic_quantize", .name = name, .inputs = {x, residual, scales}, .bound = of_int8()});
    }
    for (const DType to : kFloats) {
      const auto add = [&](const char* op, const Tensor& ids, std::vector<Tensor> more, Bound bound) {
        std::vector<Tensor> inputs = {ids, random_tensor(dtype, {7, width}, random), weight};
        inputs.insert(inputs.end(), more.begin(), more.end());
        cases.push_back({.op = op,
                         .name = fmt::format("{} columns{}", width, describe_operands(more)),
                         .inputs = inputs,
                         .attributes = {to, 1e-6},
                         .bound = bound});
      };
      add("embedding_rms_norm", int_tensor({6, 0, -1, 7, 3}), {}, rounded(to, 1e-9, 2e-6));
      // What becomes of a row of NaN has no meaning in int8.
      const Tensor ids = int_tensor({6, 0, 3});
      add("embedding_rms_norm_quantize", ids, {{}, scale, {}}, of_int8());
      add("embedding_rms_norm_quantize", ids, {bias, scales, scale}, of_int8());
      add("embedding_rms_norm_dynamic_quantize", ids, {{}, {}}, of_int8());
      add("embedding_rms_norm_dynamic_quantize", ids, {bias, scales}, of_int8());
    }
  }
}

/// Longer than what a kernel may keep of a row.
void add_long_rows(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  const Tensor gate = random_tensor(dtype, {2, 20'000}, random);
  const Tensor up = random_tensor(dtype, {2, 20'000}, random);
  cases.push_back({.op = "swiglu_dynamic_quantize",
                   .name = describe_operands({gate}),
                   .inputs = {gate, up, {}},
                   .bound = of_int8()});
}

void add_split_qkv(std::vector<ConformanceCase>& cases, DType dtype, std::mt19937& random) {
  struct Heads {
    int64_t heads, kv_heads;
  };
  for (const int64_t dim : {2, 16, 62, 80, 128}) {
    for (const Heads& count : {Heads{1, 1}, Heads{4, 2}, Heads{5, 1}}) {
      for (const bool biased : {false, true}) {
        const auto vector = [&] { return random_tensor(DType::kF32, {dim}, random); };
        const Tensor qkv = random_tensor(dtype, {4, (count.heads + 2 * count.kv_heads) * dim}, random);
        cases.push_back({.op = "split_qkv_rms_norm_rope",
                         .name = fmt::format("{} heads, {}", count.heads, describe_operands({qkv})),
                         .inputs = {qkv, vector(), vector(), biased ? vector() : Tensor(), biased ? vector() : Tensor(),
                                    int_tensor({9, 0, 10, -1}), random_tensor(DType::kF32, {10, dim}, random)},
                         .attributes = {count.heads, count.kv_heads, 1e-6},
                         // A normed value may fall to the other neighbour, and both halves of a head enter a result.
                         .bound = {dtype == DType::kBF16 ? 0.06 : 4e-6, rounded(dtype, 0).relative}});
        const Shape cache = {3, 2, count.kv_heads, dim};
        cases.push_back({.op = "split_qkv_rms_norm_rope_store",
                         .name = fmt::format("{} heads, {}", count.heads, describe_operands({qkv})),
                         .inputs = {qkv,
                                    vector(),
                                    vector(),
                                    biased ? vector() : Tensor(),
                                    biased ? vector() : Tensor(),
                                    int_tensor({9, 0, 10, -1}),
                                    random_tensor(DType::kF32, {10, dim}, random),
                                    int_tensor({5, -1, 0, 6}),
                                    random_tensor(dtype, cache, random),
                                    random_tensor(dtype, cache, random),
                                    {},
                                    {}},
                         .attributes = {count.heads, count.kv_heads, 1e-6},
                         .bound = {dtype == DType::kBF16 ? 0.06 : 4e-6, rounded(dtype, 0).relative}});
        const Shape scales = {3, 2, count.kv_heads};
        // What is rounded to the other neighbour before it is quantised may be a few steps of int8 away.
        cases.push_back(
            {.op = "split_qkv_rms_norm_rope_store",
             .name = fmt::format("int8, {} heads, {}", count.heads, describe_operands({qkv})),
             .inputs = {qkv, vector(), vector(), biased ? vector() : Tensor(), biased ? vector() : Tensor(),
                        int_tensor({9, 0, 10, -1}), random_tensor(DType::kF32, {10, dim}, random),
                        int_tensor({5, -1, 0, 6}), random_int8_tensor(cache, random), random_int8_tensor(cache, random),
                        random_tensor(DType::kF32, scales, random), random_tensor(DType::kF32, scales, random)},
             .attributes = {count.heads, count.kv_heads, 1e-6},
             .bound = {dtype == DType::kBF16 ? 2.0 : 1.0, 0}});
      }
    }
  }
}

}  // namespace

void add_fused_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(6);
  for (const DType dtype : kFloats) {
    add_in_place(cases, dtype, random);
    add_moves(cases, dtype, random);
    add_matmul(cases, dtype, random);
    add_quantize(cases, dtype, random);
    add_long_rows(cases, dtype, random);
    add_norms(cases, dtype, random);
    add_split_qkv(cases, dtype, random);
  }
  const Tensor bytes = random_tensor(DType::kF32, {3, 5}, random).with_meta(TensorMeta(DType::kI8, {4, 15}));
  TensorMeta cut = bytes.meta();
  cut.shape[1] = 7;
  TensorMeta turned(DType::kF32, {3, 2, 5, 2});
  turned.strides = {1, 30, 3, 15};
  for (const char* op : {"copy", "copy_"}) {
    const Tensor x = random_tensor(DType::kF32, {60}, random).with_meta(turned);
    std::vector<Tensor> inputs = {x};
    if (std::string_view(op) == "copy_")
      inputs.insert(inputs.begin(), random_tensor(DType::kF32, {3, 2, 5, 2}, random));
    cases.push_back({.op = op, .name = "with all axes turned", .inputs = inputs});
  }
  cases.push_back({.op = "copy", .name = "int8", .inputs = {bytes}});
  cases.push_back({.op = "copy", .name = "int8 with gaps", .inputs = {bytes.with_meta(cut, 3)}});
}

}  // namespace reprise::ops
