#include "kernels/cpu/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/int8_paths.h"
#include "kernels/cpu/kernel_testing.h"
#include "kernels/cpu/linear.h"

namespace reprise::kernels::cpu {
namespace {

class MoeTest : public KernelTest {};
REPRISE_KERNEL_TESTS(MoeTest);

int32_t* integers(Buffer& buffer) { return static_cast<int32_t*>(buffer.data()); }

constexpr int64_t kMoeSizes[] = {1, 3, 31, 63, 64, 65, 129, 1000};

TEST_P(MoeTest, GatingKeepsTheLargestAndWritesNothingElse) {
  for (const Element element : kBothElements) {
    for (const int64_t experts : kMoeSizes) {
      for (const int64_t top_k : {int64_t{1}, std::min<int64_t>(8, experts), std::min<int64_t>(65, experts)}) {
        const int64_t tokens = 5;
        const int64_t stride = experts + 3;
        const std::vector<float> values = random_values(tokens * stride, element, 1);
        const Buffer logits = Buffer::from(element, values);
        Buffer weights(Element::kF32, tokens * top_k);
        Buffer chosen(Element::kF32, tokens * top_k);
        const int32_t real = 3;
        const GatingArguments arguments{.logits = logits.data(),
                                        .token_count = &real,
                                        .weights = static_cast<float*>(weights.data()),
                                        .experts = integers(chosen),
                                        .tokens = tokens,
                                        .expert_count = experts,
                                        .top_k = top_k,
                                        .logits_row_stride = stride,
                                        .renormalize = true};
        run_in_all_cuts(moe_kernels(GetParam()).gating[int(element)], &arguments, gating_tiles(tokens),
                        {&weights, &chosen});
        for (int64_t token = 0; token < tokens; ++token) {
          double sum = 0;
          for (int64_t j = 0; j < top_k; ++j) {
            const int32_t expert = integers(chosen)[token * top_k + j];
            sum += weights.get(token * top_k + j);
            if (token >= real) {
              EXPECT_EQ(expert, -1);
              continue;
            }
            ASSERT_TRUE(expert >= 0 && expert < experts);
            const float logit = values[size_t(token * stride + expert)];
            // All that come before: those with a larger logit, and those with an equal one and a lower index.
            int64_t before = 0;
            for (int64_t e = 0; e < experts; ++e) {
              const float other = values[size_t(token * stride + e)];
              before += other > logit || (other == logit && e < expert);
            }
            EXPECT_EQ(before, j) << experts << " experts, token " << token;
          }
          EXPECT_NEAR(sum, token < real ? 1.0 : 0.0, 1e-5);
        }
      }
    }
  }
}

/// Groups of 0, 1 and many rows, and 3 rows of none.
constexpr int32_t kOffsets[] = {0, 2, 2, 3, 16};
constexpr int64_t kExperts = 4;
constexpr int64_t kRows = 19;

GroupedRows rows_into(Buffer& y) {
  return {.offsets = kOffsets, .experts = kExperts, .count = kRows, .y = y.data(), .y_element = y.element()};
}

TEST_P(MoeTest, GroupedLinearStaysInItsRowsAndClearsThoseOfNoExpert) {
  for (const Element element : kBothElements) {
    for (const int64_t outputs : kMoeSizes) {
      const int64_t inputs = 37;
      const Buffer weight = Buffer::from(element, random_values(kExperts * outputs * inputs, element, 2));
      std::vector<float> x_values = random_values(kRows * inputs, element, 3);
      // Rows of no expert are not read.
      for (int64_t i = 16 * inputs; i < kRows * inputs; ++i) {
        x_values[size_t(i)] = std::numeric_limits<float>::quiet_NaN();
      }
      const Buffer x = Buffer::from(element, x_values);
      Buffer packed(element, kExperts * linear_blocks(outputs) * packed_block_elements(element, inputs));
      const LinearKernels& kernels = linear_kernels(GetParam());
      for (int64_t e = 0; e < kExperts; ++e) {
        Buffer plain = weight;
        const PackLinearArguments pack{plain.at(e * outputs * inputs),
                                       packed.at(e * linear_blocks(outputs) * packed_block_elements(element, inputs)),
                                       outputs, inputs, inputs};
        kernels.pack[int(element)][int(element)](&pack, 0, pack_linear_tiles(outputs));
      }
      Buffer y(element, kRows * outputs);
      const GroupedLinearArguments arguments{.rows = rows_into(y),
                                             .x = x.data(),
                                             .weight = packed.data(),
                                             .inputs = inputs,
                                             .outputs = outputs,
                                             .x_row_stride = inputs};
      run_with_all_tiles(kernels.grouped[int(element)][int(element)], arguments, grouped_linear_tiles(outputs), y);
      for (int64_t row = 0; row < kRows; ++row) {
        const int64_t expert = std::upper_bound(kOffsets + 1, kOffsets + 5, row) - (kOffsets + 1);
        for (int64_t n = 0; n < outputs; ++n) {
          double sum = 0;
          double magnitude = 0;
          for (int64_t k = 0; k < inputs && expert < kExperts; ++k) {
            const double product = double(x.get(row * inputs + k)) * weight.get((expert * outputs + n) * inputs + k);
            sum += product;
            magnitude += std::abs(product);
          }
          expect_close(y.get(row * outputs + n), sum, magnitude * 1e-6, rounding_of(element), "y");
        }
      }
    }
  }
}

TEST_P(MoeTest, GroupedLinearGivesAGroupTheBitsThatItGetsAlone) {
  const LinearKernels& kernels = linear_kernels(GetParam());
  const int64_t inputs = 37;
  const int64_t outputs = 153;
  // No rows at all, one expert, first and last without rows, most without, and rows of none behind all.
  const std::vector<std::vector<int32_t>> all_offsets = {
      {0, 0},         {0, 0, 0, 0},      {0, 9}, {0, 0, 7, 8, 8}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1},
      {0, 8, 14, 15}, {0, 1, 2, 3, 4, 5}};
  for (const Element element : kBothElements) {
    for (const std::vector<int32_t>& offsets : all_offsets) {
      for (const int64_t rows_of_none : {0, 2}) {
        const auto experts = static_cast<int64_t>(offsets.size()) - 1;
        const int64_t rows = offsets.back() + rows_of_none;
        SCOPED_TRACE(testing::Message() << experts << " experts, " << rows << " rows");
        Buffer weight = Buffer::from(element, random_values(experts * outputs * inputs, element, 5));
        const int64_t packed_elements = linear_blocks(outputs) * packed_block_elements(element, inputs);
        Buffer packed(element, experts * packed_elements);
        for (int64_t e = 0; e < experts; ++e) {
          const PackLinearArguments pack{weight.at(e * outputs * inputs), packed.at(e * packed_elements), outputs,
                                         inputs, inputs};
          kernels.pack[int(element)][int(element)](&pack, 0, pack_linear_tiles(outputs));
        }
        Buffer x = Buffer::from(element, random_values(rows * inputs, element, 6));
        const auto product = [&](const int32_t* groups, int64_t count, int64_t first_expert, int64_t first_row,
                                 int64_t count_of_rows, Buffer& y) {
          return GroupedLinearArguments{.rows = {.offsets = groups,
                                                 .experts = count,
                                                 .count = count_of_rows,
                                                 .y = y.data(),
                                                 .y_element = element},
                                        .x = x.at(first_row * inputs),
                                        .weight = packed.at(first_expert * packed_elements),
                                        .inputs = inputs,
                                        .outputs = outputs,
                                        .x_row_stride = inputs};
        };
        const KernelFunction grouped = kernels.grouped[int(element)][int(element)];
        Buffer y(element, rows * outputs);
        run_with_all_tiles(grouped, product(offsets.data(), experts, 0, 0, rows, y), grouped_linear_tiles(outputs), y);
        for (size_t e = 0; e + 1 < offsets.size(); ++e) {
          const int32_t alone[] = {0, offsets[e + 1] - offsets[e]};
          Buffer own(element, alone[1] * outputs);
          const GroupedLinearArguments arguments =
              product(alone, 1, static_cast<int64_t>(e), offsets[e], alone[1], own);
          grouped(&arguments, 0, grouped_linear_tiles(outputs));
          EXPECT_EQ(std::memcmp(own.data(), y.at(offsets[e] * outputs), size_t(own.count()) * size_of(element)), 0);
        }
        for (int64_t i = offsets.back() * outputs; i < rows * outputs; ++i) ASSERT_EQ(y.get(i), 0.0f);
      }
    }
  }
}

class Int8MoeTest : public testing::TestWithParam<Int8Path> {};
INSTANTIATE_TEST_SUITE_P(Cpu, Int8MoeTest, testing::ValuesIn(int8_paths()),
                         [](const testing::TestParamInfo<Int8Path>& tested) { return tested.param.name; });

TEST_P(Int8MoeTest, GroupedLinearIsExactAtTheExtremesHoweverItWalksOverTheWeights) {
  for (const int64_t inputs : kMoeSizes) {
    if (GetParam().emulated && inputs > 31) continue;
    const int64_t outputs = 153;
    // The largest products, of either sign.
    std::vector<int8_t> weight(size_t(kExperts * outputs * inputs));
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = (i / size_t(inputs)) % 3 == 0 ? 127 : -128;
    std::vector<int8_t> x(size_t(kRows * inputs));
    for (size_t i = 0; i < x.size(); ++i) x[i] = (i / size_t(inputs)) % 2 == 0 ? -128 : 127;
    const Int8LinearKernels& kernels = *GetParam().kernels;
    std::vector<unsigned char> packed(size_t(kExperts * int8_packed_bytes(outputs, inputs)));
    for (int64_t e = 0; e < kExperts; ++e) {
      const PackLinearArguments pack{weight.data() + e * outputs * inputs,
                                     packed.data() + e * int8_packed_bytes(outputs, inputs), outputs, inputs, inputs};
      kernels.pack(&pack, 0, pack_linear_tiles(outputs));
    }
    const std::vector<float> scale(size_t(kExperts * outputs), 0.5f);
    const std::vector<float> row_scales(size_t(kRows), 0.25f);
    Buffer y(Element::kF32, kRows * outputs);
    const Int8GroupedLinearArguments arguments{.rows = rows_into(y),
                                               .x = x.data(),
                                               .weight = packed.data(),
                                               .scale = scale.data(),
                                               .row_scales = row_scales.data(),
                                               .inputs = inputs,
                                               .outputs = outputs,
                                               .x_row_stride = inputs};
    run_with_all_tiles(kernels.grouped, arguments, grouped_linear_tiles(outputs), y);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t expert = std::upper_bound(kOffsets + 1, kOffsets + 5, row) - (kOffsets + 1);
      for (int64_t n = 0; n < outputs; ++n) {
        int32_t sum = 0;
        for (int64_t k = 0; k < inputs && expert < kExperts; ++k) {
          sum += x[size_t(row * inputs + k)] * weight[size_t((expert * outputs + n) * inputs + k)];
        }
        ASSERT_EQ(y.get(row * outputs + n), static_cast<float>(sum) * 0.5f * 0.25f);
      }
    }
  }
}

TEST_P(MoeTest, CombineAddsInTheOrderOfTheChoice) {
  for (const Element element : kBothElements) {
    for (const int64_t columns : kMoeSizes) {
      const int64_t tokens = 3;
      const int64_t top_k = 3;
      const std::vector<float> values = random_values(9 * columns, element, 4);
      Buffer y = Buffer::from(element, values);
      // Row 5 belongs to nobody.
      for (int64_t i = 0; i < columns; ++i) y.set(5 * columns + i, std::numeric_limits<float>::quiet_NaN());
      const float weights[] = {0.5f, -0.25f, 3, 1, 1, 1, 7, 7, 7};
      const int32_t places[] = {8, 0, 4, -1, 2, 1, -1, -1, -1};
      Buffer out(element, tokens * columns);
      const CombineArguments arguments{.y = y.data(),
                                       .weights = weights,
                                       .places = places,
                                       .out = out.data(),
                                       .tokens = tokens,
                                       .top_k = top_k,
                                       .columns = columns,
                                       .y_row_stride = columns};
      run_in_all_cuts(moe_kernels(GetParam()).combine[int(element)], &arguments, combine_tiles(tokens, columns),
                      {&out});
      for (int64_t i = 0; i < columns; ++i) {
        const auto value = [&](int64_t row) { return double(values[size_t(row * columns + i)]); };
        expect_close(out.get(i), -0.25 * value(0) + 3 * value(4) + 0.5 * value(8), 4e-7, rounding_of(element), "out");
        expect_close(out.get(columns + i), value(1) + value(2), 4e-7, rounding_of(element), "out");
        EXPECT_EQ(out.get(2 * columns + i), 0.0f);
      }
    }
  }
  // In any other order the one in the middle would count.
  Buffer y = Buffer::from(Element::kF32, {-1, 1, 1});
  const float weights[] = {1e9f, 1, 1e9f};
  const int32_t places[] = {2, 1, 0};
  Buffer out(Element::kF32, 1);
  const CombineArguments arguments{.y = y.data(),
                                   .weights = weights,
                                   .places = places,
                                   .out = out.data(),
                                   .tokens = 1,
                                   .top_k = 3,
                                   .columns = 1,
                                   .y_row_stride = 1};
  run_in_all_cuts(moe_kernels(GetParam()).combine[0], &arguments, combine_tiles(1, 1), {&out});
  EXPECT_EQ(out.get(0), 0.0f);
  const int32_t other_places[] = {2, 0, 1};
  const float other_weights[] = {1e9f, 1e9f, 1};
  CombineArguments other = arguments;
  other.weights = other_weights;
  other.places = other_places;
  run_in_all_cuts(moe_kernels(GetParam()).combine[0], &other, combine_tiles(1, 1), {&out});
  EXPECT_EQ(out.get(0), 1.0f);
}

}  // namespace
}  // namespace reprise::kernels::cpu
