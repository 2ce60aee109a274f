#include "ops/conformance_cases.h"

#include <fmt/core.h>

#include <algorithm>

#include "ops/host_tensor.h"
#include "ops/measure.h"

namespace reprise::ops {
namespace {

std::string describe(const std::vector<Tensor>& inputs) {
  std::string text;
  for (const Tensor& input : inputs) text += fmt::format(" {}", input.defined() ? input.meta().to_string() : "none");
  return text;
}

void add_views(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  for (const DType dtype : kFloats) {
    const Tensor x = random_tensor(dtype, {3, 4, 10}, random);
    for (const Shape& shape : {Shape{120}, Shape{3, 40}, Shape{12, 2, 5}, Shape{1, 3, 4, 10}}) {
      cases.push_back({.op = "reshape", .name = shape.to_string(), .inputs = {x}, .attributes = {shape}});
    }
    for (int64_t axis = 0; axis < 3; ++axis) {
      cases.push_back({.op = "slice",
                       .name = fmt::format("{} along {}", name_of(dtype), axis),
                       .inputs = {x},
                       .attributes = {axis, int64_t{1}, int64_t{3}}});
    }
    const Tensor strided = random_strided_tensor(dtype, {3, 4, 10}, 1, random);
    cases.push_back(
        {.op = "slice", .name = "of a view", .inputs = {strided}, .attributes = {int64_t{1}, int64_t{2}, int64_t{2}}});
  }
}

}  // namespace

Bound rounded(DType dtype, double absolute, double relative) {
  // The distance of neighbours is at most 2^-7 of a bfloat16.
  return {absolute, dtype == DType::kBF16 ? relative + 0x1p-7 : relative};
}

void add_elementwise_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(1);
  for (const DType dtype : kFloats) {
    std::vector<std::pair<Tensor, Tensor>> pairs;
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{3}, Shape{31}, Shape{5, 0}, Shape{0, 5}, Shape{3, 31},
                               Shape{2, 1500}, Shape{3, 2, 129}}) {
      pairs.emplace_back(random_tensor(dtype, shape, random), random_tensor(dtype, shape, random));
    }
    pairs.emplace_back(random_strided_tensor(dtype, {3, 31}, 1, random), random_tensor(dtype, {3, 31}, random));
    pairs.emplace_back(random_strided_tensor(dtype, {3, 2, 17}, 1, random),
                       random_strided_tensor(dtype, {3, 2, 17}, 1, random));
    for (const auto& [a, b] : pairs) {
      const std::string name = describe({a, b});
      cases.push_back({.op = "add", .name = name, .inputs = {a, b}});
      cases.push_back({.op = "mul", .name = name, .inputs = {a, b}});
      cases.push_back({.op = "silu", .name = name, .inputs = {a}, .bound = rounded(dtype, 1e-9, 1e-6)});
    }
    const Tensor wide = float_tensor(dtype, {8}, {-1e30f, -200, -88, -20, 20, 88, 200, 1e30f});
    cases.push_back({.op = "silu", .name = "of large values", .inputs = {wide}, .bound = rounded(dtype, 1e-30, 1e-6)});

    for (const int64_t width : {1, 3, 31, 64, 129, 1030}) {
      const Tensor weight = random_tensor(DType::kF32, {width}, random);
      for (const Tensor& x :
           {random_tensor(dtype, {3, width}, random), random_tensor(dtype, {width}, random),
            random_tensor(dtype, {0, width}, random), random_strided_tensor(dtype, {3, 2, width}, 1, random),
            random_strided_tensor(dtype, {3, 2, width}, 2, random)}) {
        cases.push_back({.op = "rms_norm",
                         .name = describe({x}),
                         .inputs = {x, weight},
                         .attributes = {1e-6},
                         .bound = rounded(dtype, 1e-9, 2e-6)});
      }
    }
    for (const int64_t dim : {2, 16, 62, 128}) {
      const Tensor table = random_tensor(DType::kF32, {50, dim}, random);
      for (const Tensor& x : {random_tensor(dtype, {4, 3, dim}, random), random_tensor(dtype, {4, 1, dim}, random),
                              random_strided_tensor(dtype, {4, 3, dim}, 1, random),
                              random_strided_tensor(dtype, {4, 3, dim}, 2, random)}) {
        cases.push_back({.op = "rope",
                         .name = describe({x}),
                         .inputs = {x, int_tensor({49, 0, 50, -1}), table},
                         .bound = rounded(dtype, 3e-7)});
      }
      cases.push_back({.op = "rope",
                       .name = "no tokens",
                       .inputs = {random_tensor(dtype, {0, 3, dim}, random), int_tensor({}), table}});
    }
  }
}

void add_row_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(2);
  for (const DType dtype : kFloats) {
    for (const Tensor& x :
         {random_tensor(dtype, {0}, random), random_tensor(dtype, {1}, random), random_tensor(dtype, {3, 129}, random),
          random_tensor(dtype, {3, 2, 31}, random), random_tensor(dtype, {0, 7}, random),
          random_strided_tensor(dtype, {5, 31}, 1, random), random_strided_tensor(dtype, {5, 2, 31}, 1, random)}) {
      cases.push_back({.op = "copy", .name = describe({x}), .inputs = {x}});
      for (const DType to : kFloats) {
        cases.push_back({.op = "cast",
                         .name = fmt::format("{} to {}", describe({x}), name_of(to)),
                         .inputs = {x},
                         .attributes = {to}});
      }
    }
    for (const int64_t width : {1, 3, 31, 129}) {
      for (const Tensor& table :
           {random_tensor(dtype, {7, width}, random), random_strided_tensor(dtype, {7, width}, 1, random)}) {
        for (const Tensor& rows : {int_tensor({}), int_tensor({6}), int_tensor({0, 3, 3, -1, 7, 0x7FFFFFFF, 2})}) {
          cases.push_back({.op = "gather_rows", .name = describe({table, rows}), .inputs = {table, rows}});
          for (const DType to : kFloats) {
            cases.push_back({.op = "embedding",
                             .name = fmt::format("{} to {}", describe({rows, table}), name_of(to)),
                             .inputs = {rows, table},
                             .attributes = {to}});
          }
        }
      }
    }
    for (const auto& [heads, width] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {3, 31}, {2, 64}}) {
      const Tensor k_cache = random_tensor(dtype, {3, 4, heads, width}, random);
      const Tensor v_cache = random_tensor(dtype, {3, 4, heads, width}, random);
      const Tensor slots = int_tensor({11, 0, -1, 12, 5});
      cases.push_back({.op = "store_kv",
                       .name = describe({k_cache}),
                       .inputs = {random_tensor(dtype, {5, heads, width}, random),
                                  random_strided_tensor(dtype, {5, heads, width}, 1, random),
                                  slots,
                                  k_cache,
                                  v_cache,
                                  {},
                                  {}}});
      const Tensor none = random_tensor(dtype, {0, heads, width}, random);
      cases.push_back(
          {.op = "store_kv", .name = "no tokens", .inputs = {none, none, int_tensor({}), k_cache, v_cache, {}, {}}});
      cases.push_back({.op = "store_kv",
                       .name = "int8, " + describe({k_cache}),
                       .inputs = {random_strided_tensor(dtype, {5, heads, width}, 1, random),
                                  random_tensor(dtype, {5, heads, width}, random), slots,
                                  random_int8_tensor({3, 4, heads, width}, random),
                                  random_int8_tensor({3, 4, heads, width}, random),
                                  random_tensor(DType::kF32, {3, 4, heads}, random),
                                  random_tensor(DType::kF32, {3, 4, heads}, random)}});
    }
  }
  const Tensor ints = int_tensor({1, -2, 0x7FFFFFFF, 4, 5, 6});
  cases.push_back({.op = "copy", .name = "int32", .inputs = {ints}});
  cases.push_back({.op = "copy", .name = "int64", .inputs = {ints.with_meta(TensorMeta(DType::kI64, {3}))}});
}

namespace {

/// All values of a byte, the extremes among them.
Tensor int8_tensor(const Shape& shape, std::mt19937& random) {
  const Tensor tensor = empty_tensor(DType::kI8, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) tensor.data_as<int8_t>()[i] = static_cast<int8_t>(random());
  return tensor;
}

void add_int8_linear_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(4);
  struct Size {
    int64_t rows, outputs, inputs;
  };
  for (const Size& size : {Size{1, 1, 1}, Size{3, 31, 3}, Size{0, 16, 8}, Size{5, 3, 129}, Size{1, 129, 1030},
                           Size{31, 48, 64}, Size{129, 33, 31}, Size{2, 0, 4}, Size{3, 5, 0}}) {
    const Tensor weight = int8_tensor({size.outputs, size.inputs}, random);
    const Tensor x = int8_tensor({size.rows, size.inputs}, random);
    const Tensor scale = random_tensor(DType::kF32, {size.outputs}, random);
    const Tensor bias = random_tensor(DType::kF32, {size.outputs}, random);
    const Tensor row_scales = random_tensor(DType::kF32, {size.rows}, random);
    std::vector<int32_t> sums(static_cast<size_t>(size.outputs));
    for (int32_t& sum : sums) sum = static_cast<int32_t>(random()) / 4096;
    const Tensor quant_bias = int_tensor(sums);
    // Identity finds out what a device packed: see DeviceUnderTest::unpack.
    cases.push_back(
        {.op = "pack_linear_weight", .name = describe({weight}), .inputs = {weight}, .attributes = {std::string()}});
    for (const DType out : kFloats) {
      const auto add = [&](const Tensor& rows, const Tensor& integers, const Tensor& floats) {
        cases.push_back({.op = "int8_linear",
                         .name = fmt::format("{} to {}", describe({x, weight, rows, integers, floats}), name_of(out)),
                         .inputs = {x, weight, scale, rows, integers, floats},
                         .attributes = {out},
                         .pack_weight = true});
      };
      add({}, {}, {});
      add(row_scales, {}, {});
      add(row_scales, {}, bias);
      add({}, quant_bias, {});
      add(row_scales, quant_bias, bias);
    }
  }
  const Tensor weight = int8_tensor({20, 31}, random);
  const Tensor scale = random_tensor(DType::kF32, {20}, random);
  TensorMeta gaps(DType::kI8, {5, 31});
  gaps.strides[0] = 40;
  const Tensor wide = int8_tensor({5, 40}, random);
  for (const Tensor& x : {wide.with_meta(gaps), int8_tensor({2, 3, 31}, random), int8_tensor({31}, random)}) {
    cases.push_back({.op = "int8_linear",
                     .name = describe({x}),
                     .inputs = {x, weight, scale, {}, {}, {}},
                     .attributes = {DType::kF32},
                     .pack_weight = true});
  }
}

}  // namespace

void add_linear_cases(std::vector<ConformanceCase>& cases) {
  add_int8_linear_cases(cases);
  std::mt19937 random(3);
  struct Size {
    int64_t rows, outputs, inputs;
  };
  for (const DType weight_dtype : kFloats) {
    for (const Size& size : {Size{1, 1, 1}, Size{3, 31, 3}, Size{0, 16, 8}, Size{5, 3, 129}, Size{1, 129, 1030},
                             Size{31, 48, 64}, Size{129, 33, 31}, Size{2, 0, 4}, Size{7, 17, 2}}) {
      const Tensor weight = random_tensor(weight_dtype, {size.outputs, size.inputs}, random);
      const Tensor bias = random_tensor(DType::kF32, {size.outputs}, random);
      cases.push_back(
          {.op = "pack_linear_weight", .name = describe({weight}), .inputs = {weight}, .attributes = {std::string()}});
      for (const DType dtype : kFloats) {
        for (const DType out : kFloats) {
          const Tensor x = random_tensor(dtype, {size.rows, size.inputs}, random);
          const std::string name = fmt::format("{} to {}", describe({x, weight}), name_of(out));
          // Products of values up to 1 in one chain: an error of half a unit of the sum at each step.
          const Bound bound = rounded(out, 1e-7 * static_cast<double>(size.inputs), 1e-6);
          cases.push_back({.op = "linear",
                           .name = name,
                           .inputs = {x, weight, Tensor()},
                           .attributes = {out},
                           .bound = bound,
                           .pack_weight = true});
          cases.push_back({.op = "linear",
                           .name = fmt::format("{} with bias", name),
                           .inputs = {x, weight, bias},
                           .attributes = {out},
                           .bound = bound,
                           .pack_weight = true});
        }
      }
    }
    for (const Tensor& x :
         {random_strided_tensor(DType::kBF16, {5, 31}, 1, random), random_tensor(DType::kBF16, {2, 3, 31}, random),
          random_tensor(DType::kBF16, {31}, random)}) {
      cases.push_back({.op = "linear",
                       .name = describe({x}),
                       .inputs = {x, random_strided_tensor(weight_dtype, {20, 31}, 1, random), Tensor()},
                       .attributes = {DType::kF32},
                       .bound = {4e-6, 1e-6},
                       .pack_weight = true});
    }
  }
}

void add_measure_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(5);
  for (const int64_t words : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{1000}, kReadBlockWords, kReadBlockWords + 1,
                              5 * kReadBlockWords - 3}) {
    std::vector<int32_t> values(static_cast<size_t>(words));
    for (int32_t& value : values) value = static_cast<int32_t>(random());
    cases.push_back({.op = "read_all", .name = fmt::format("{} words", words), .inputs = {int_tensor(values)}});
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    for (const std::vector<int32_t>& factors : {std::vector<int32_t>{}, {0, 1, 127, 42, 3}}) {
      cases.push_back({.op = "multiply_adds",
                       .name = fmt::format("{} of {}", factors.size(), name_of(dtype)),
                       .inputs = {int_tensor(factors)},
                       .attributes = {dtype}});
    }
  }
}

std::vector<ConformanceCase> conformance_cases(const std::string& op) {
  std::vector<ConformanceCase> cases;
  std::mt19937 random(0);
  add_views(cases, random);
  add_elementwise_cases(cases);
  add_row_cases(cases);
  add_linear_cases(cases);
  add_sequence_cases(cases);
  add_measure_cases(cases);
  add_fused_cases(cases);
  add_moe_cases(cases);
  std::erase_if(cases, [&](const ConformanceCase& one) { return one.op != op; });
  return cases;
}

}  // namespace reprise::ops
