// Cases of mixtures of experts.

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/conformance_cases.h"
#include "ops/host_tensor.h"

namespace reprise::ops {
namespace {

constexpr float kMoeNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMoeInfinity = std::numeric_limits<float>::infinity();

struct ChoiceSize {
  int64_t tokens, experts, top_k;
  std::string to_string() const { return fmt::format("{} tokens, {} of {} experts", tokens, top_k, experts); }
};

constexpr ChoiceSize kChoices[] = {{1, 1, 1},    {1, 128, 8}, {0, 8, 2},   {3, 31, 31},  {5, 8, 2},     {15, 128, 8},
                                   {16, 128, 8}, {17, 64, 8}, {33, 17, 3}, {64, 128, 8}, {65, 129, 17}, {2, 1000, 63}};

/// int32 [rows, columns].
Tensor int_matrix(const std::vector<int32_t>& values, int64_t rows, int64_t columns) {
  return int_tensor(values).with_meta(TensorMeta(DType::kI32, {rows, columns}));
}

void add_gating_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  const auto add = [&](const std::string& name, const Tensor& logits, const Tensor& count, int64_t top_k) {
    for (const bool renormalize : {false, true}) {
      cases.push_back({.op = "moe_gating_top_k",
                       .name = fmt::format("{}, {}", name, renormalize ? "renormalised" : "as they are"),
                       .inputs = {logits, count},
                       .attributes = {top_k, renormalize},
                       .bound = {1e-9, 4e-6}});
    }
  };
  for (const DType dtype : kFloats) {
    for (const ChoiceSize& choice : kChoices) {
      const Tensor logits = random_tensor(dtype, {choice.tokens, choice.experts}, random);
      add(choice.to_string(), logits, {}, choice.top_k);
      for (const int64_t real : {int64_t{0}, choice.tokens / 2, choice.tokens}) {
        add(fmt::format("{}, {} of them real", choice.to_string(), real), logits,
            int_tensor({static_cast<int32_t>(real)}), choice.top_k);
      }
    }
    add("rows with gaps", random_strided_tensor(dtype, {5, 40}, 1, random), {}, 4);
    add("all equal", float_tensor(dtype, {1, 6}, {2, 2, 2, 2, 2, 2}), {}, 3);
    add("ties at the last place", float_tensor(dtype, {2, 5}, {1, 3, 2, 2, 2, 2, 1, 2, 5, 2}), {}, 3);
    add("far apart", float_tensor(dtype, {1, 4}, {-1e30f, 200, -200, 100}), {}, 4);
    add("NaN, in its row only", float_tensor(dtype, {2, 4}, {1, kMoeNaN, 3, 2, 1, 4, 3, 2}), {}, 2);
    add("NaN in padding", float_tensor(dtype, {2, 4}, {1, 4, 3, 2, kMoeNaN, kMoeNaN, kMoeNaN, kMoeNaN}),
        int_tensor({1}), 2);
    add("infinities", float_tensor(dtype, {2, 3}, {-kMoeInfinity, 1, -kMoeInfinity, 0, -kMoeInfinity, 2}), {}, 2);
  }
}

/// A choice of distinct experts for each token, as a router makes it.
std::vector<int32_t> random_choice(const ChoiceSize& choice, int64_t real, std::mt19937& random) {
  std::vector<int32_t> all(static_cast<size_t>(choice.experts));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int32_t> experts;
  for (int64_t token = 0; token < choice.tokens; ++token) {
    std::shuffle(all.begin(), all.end(), random);
    for (int64_t j = 0; j < choice.top_k; ++j) experts.push_back(token < real ? all[static_cast<size_t>(j)] : -1);
  }
  return experts;
}

void add_route_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  const auto add = [&](const std::string& name, const Tensor& experts, int64_t count) {
    cases.push_back({.op = "moe_route", .name = name, .inputs = {experts}, .attributes = {count}});
  };
  for (const ChoiceSize& choice : kChoices) {
    for (const int64_t real : {int64_t{0}, choice.tokens / 2, choice.tokens}) {
      add(fmt::format("{}, {} of them real", choice.to_string(), real),
          int_matrix(random_choice(choice, real, random), choice.tokens, choice.top_k), choice.experts);
    }
  }
  add("all to one expert", int_matrix({3, 3, 3, 3, 3, 3}, 3, 2), 5);
  add("experts that are none", int_matrix({4, -1, 5, 0, -7, 0x7FFFFFFF}, 3, 2), 5);
}

/// Offsets of `experts` groups of random sizes, some of them empty, with `rows` rows in all.
std::vector<int32_t> random_offsets(int64_t experts, int64_t rows, std::mt19937& random) {
  std::vector<int32_t> offsets = {0};
  for (int64_t e = 1; e < experts; ++e) {
    offsets.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(rows + 1)));
  }
  std::sort(offsets.begin(), offsets.end());
  offsets.push_back(static_cast<int32_t>(rows));
  return offsets;
}

void add_grouped_linear_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  struct Size {
    int64_t rows, routed, experts, outputs, inputs;
  };
  for (const DType weight_dtype : kFloats) {
    for (const Size& size : {Size{1, 1, 1, 1, 1}, Size{0, 0, 3, 16, 8}, Size{5, 0, 2, 3, 7}, Size{40, 40, 8, 31, 65},
                             Size{64, 40, 8, 48, 129}, Size{9, 8, 128, 64, 3}, Size{130, 129, 3, 129, 31}}) {
      const Tensor weight = random_tensor(weight_dtype, {size.experts, size.outputs, size.inputs}, random);
      const Tensor offsets = int_tensor(random_offsets(size.experts, size.routed, random));
      for (const DType dtype : kFloats) {
        for (const DType out : kFloats) {
          const Tensor x = random_tensor(dtype, {size.rows, size.inputs}, random);
          cases.push_back({.op = "grouped_linear",
                           .name = fmt::format("{} rows, {} routed to {} experts {}, {} to {}", size.rows, size.routed,
                                               size.experts, weight.meta().to_string(), name_of(dtype), name_of(out)),
                           .inputs = {x, weight, offsets},
                           .attributes = {out},
                           .bound = rounded(out, 1e-7 * static_cast<double>(size.inputs), 1e-6),
                           .pack_weight = true});
        }
      }
    }
    cases.push_back({.op = "grouped_linear",
                     .name = "rows with gaps",
                     .inputs = {random_strided_tensor(DType::kBF16, {5, 31}, 1, random),
                                random_tensor(weight_dtype, {2, 20, 31}, random), int_tensor({0, 3, 5})},
                     .attributes = {DType::kF32},
                     .bound = {4e-6, 1e-6},
                     .pack_weight = true});
  }
}

Tensor random_bytes(const Shape& shape, std::mt19937& random) {
  const Tensor tensor = empty_tensor(DType::kI8, shape);
  // The extremes are as frequent as all others together: there saturating sums would show.
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const uint32_t draw = random() % 4;
    tensor.data_as<int8_t>()[i] = draw == 0   ? int8_t{-128}
                                  : draw == 1 ? int8_t{127}
                                              : static_cast<int8_t>(static_cast<uint8_t>(random()));
  }
  return tensor;
}

void add_int8_grouped_linear_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  struct Size {
    int64_t rows, routed, experts, outputs, inputs;
  };
  for (const Size& size : {Size{1, 1, 1, 1, 1}, Size{0, 0, 3, 16, 8}, Size{5, 0, 2, 3, 7}, Size{40, 40, 8, 31, 65},
                           Size{64, 40, 8, 48, 129}, Size{9, 8, 128, 64, 3}, Size{130, 129, 3, 129, 1000}}) {
    for (const DType out : kFloats) {
      cases.push_back({.op = "int8_grouped_linear",
                       .name = fmt::format("{} rows, {} routed to {} experts of {} x {}", size.rows, size.routed,
                                           size.experts, size.outputs, size.inputs),
                       .inputs = {random_bytes({size.rows, size.inputs}, random),
                                  random_bytes({size.experts, size.outputs, size.inputs}, random),
                                  int_tensor(random_offsets(size.experts, size.routed, random)),
                                  random_tensor(DType::kF32, {size.experts, size.outputs}, random),
                                  random_tensor(DType::kF32, {size.rows}, random)},
                       .attributes = {out},
                       .pack_weight = true});
    }
  }
}

void add_combine_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  for (const DType dtype : kFloats) {
    for (const ChoiceSize& choice : kChoices) {
      const int64_t rows = choice.tokens * choice.top_k;
      std::vector<int32_t> places(static_cast<size_t>(rows));
      std::iota(places.begin(), places.end(), 0);
      std::shuffle(places.begin(), places.end(), random);
      for (size_t i = 2; i < places.size(); i += 7) places[i] = -1;
      for (const int64_t columns : {1, 31, 256, 1000}) {
        if (rows * columns > 200000) continue;
        cases.push_back({.op = "moe_combine",
                         .name = fmt::format("{}, {} columns", choice.to_string(), columns),
                         .inputs = {random_tensor(dtype, {rows, columns}, random),
                                    random_tensor(DType::kF32, {choice.tokens, choice.top_k}, random),
                                    int_matrix(places, choice.tokens, choice.top_k)},
                         .bound = rounded(dtype, 1e-7 * static_cast<double>(choice.top_k + 4), 1e-6)});
      }
    }
    const Tensor y = float_tensor(dtype, {3, 2}, {1, 2, 3, 4, kMoeNaN, kMoeNaN});
    cases.push_back(
        {.op = "moe_combine",
         .name = "a row that no token has is not read",
         .inputs = {y, float_tensor(DType::kF32, {2, 2}, {0.5f, 2, 4, 8}), int_matrix({1, 0, -1, -1}, 2, 2)}});
  }
}

/// A whole layer of experts.
struct LayerSize {
  ChoiceSize choice;
  int64_t width, intermediate;
  std::string to_string(DType dtype) const {
    return fmt::format("{}, {} x {} {}", choice.to_string(), width, intermediate, name_of(dtype));
  }
};
constexpr LayerSize kLayerSizes[] = {
    {{1, 1, 1}, 1, 1}, {{0, 8, 2}, 16, 16}, {{5, 8, 2}, 48, 32}, {{17, 12, 3}, 65, 31}, {{33, 5, 5}, 300, 48}};

void add_experts_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  for (const LayerSize& size : kLayerSizes) {
    for (const DType dtype : kFloats) {
      const ChoiceSize& choice = size.choice;
      cases.push_back(
          {.op = "moe_experts",
           .name = size.to_string(dtype),
           .inputs = {random_tensor(dtype, {choice.tokens, size.width}, random),
                      random_tensor(DType::kF32, {choice.tokens, choice.top_k}, random),
                      int_matrix(random_choice(choice, choice.tokens - choice.tokens / 4, random), choice.tokens,
                                 choice.top_k),
                      random_tensor(dtype, {choice.experts, 2 * size.intermediate, size.width}, random),
                      random_tensor(dtype, {choice.experts, size.width, size.intermediate}, random)},
           // Roundings of the rows on the way go into sums of `intermediate` products of values of a few units.
           .bound = rounded(dtype, dtype == DType::kF32 ? 2e-3 : 4.0, 1e-5),
           .pack_weight = true});
    }
  }
}

void add_int8_experts_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  for (const LayerSize& size : kLayerSizes) {
    for (const DType dtype : kFloats) {
      const ChoiceSize& choice = size.choice;
      const auto scales = [&](int64_t channels) {
        const Tensor tensor = random_tensor(DType::kF32, {choice.experts, channels}, random);
        for (int64_t i = 0; i < tensor.shape().elements(); ++i) tensor.data_as<float>()[i] *= 0.002f;
        return tensor;
      };
      cases.push_back(
          {.op = "int8_moe_experts",
           .name = size.to_string(dtype),
           .inputs = {random_tensor(dtype, {choice.tokens, size.width}, random),
                      random_tensor(DType::kF32, {choice.tokens, choice.top_k}, random),
                      int_matrix(random_choice(choice, choice.tokens - choice.tokens / 4, random), choice.tokens,
                                 choice.top_k),
                      random_bytes({choice.experts, 2 * size.intermediate, size.width}, random),
                      scales(2 * size.intermediate),
                      random_bytes({choice.experts, size.width, size.intermediate}, random), scales(size.width)},
           // A value near the middle of two int8 may fall to either, for each of `intermediate` products.
           .bound = rounded(dtype, dtype == DType::kF32 ? 2e-2 : 5e-2, dtype == DType::kF32 ? 2e-3 : 2e-2),
           .pack_weight = true});
    }
  }
}

void add_place_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  // Expert 0 at one place, 1 at three, 2 nowhere, 3 with a number of copies that the map cannot hold.
  const Tensor map = int_matrix({1, 4, -1, -1, 3, 0, 5, 2, 0, -1, -1, -1, 9, 1, 3, 6}, 4, 4);
  for (const ChoiceSize& choice : kChoices) {
    const Tensor experts =
        int_matrix(random_choice(choice, choice.tokens - choice.tokens / 3, random), choice.tokens, choice.top_k);
    std::vector<int32_t> positions(static_cast<size_t>(choice.tokens));
    for (int32_t& position : positions) position = static_cast<int32_t>(random() % 40000);
    if (!positions.empty()) positions.back() = -0x7FFFFFFF;
    for (const bool dynamic : {false, true}) {
      cases.push_back({.op = "moe_place",
                       .name = fmt::format("{}, {}", choice.to_string(), dynamic ? "drawn" : "the first"),
                       .inputs = {experts, map, dynamic ? int_tensor(positions) : Tensor()}});
    }
  }
}

void add_count_cases(std::vector<ConformanceCase>& cases, std::mt19937& random) {
  for (const int64_t experts : {1, 3, 128}) {
    const Tensor counts = empty_tensor(DType::kI64, {experts});
    for (int64_t e = 0; e < experts; ++e) counts.data_as<int64_t>()[e] = (int64_t{1} << 40) + e;
    cases.push_back({.op = "moe_count_rows",
                     .name = fmt::format("{} experts", experts),
                     .inputs = {int_tensor(random_offsets(experts, 1000, random)), counts}});
  }
}

}  // namespace

void add_moe_cases(std::vector<ConformanceCase>& cases) {
  std::mt19937 random(9);
  add_gating_cases(cases, random);
  add_route_cases(cases, random);
  add_grouped_linear_cases(cases, random);
  add_int8_grouped_linear_cases(cases, random);
  add_combine_cases(cases, random);
  add_count_cases(cases, random);
  add_experts_cases(cases, random);
  add_int8_experts_cases(cases, random);
  add_place_cases(cases, random);
}

}  // namespace reprise::ops
