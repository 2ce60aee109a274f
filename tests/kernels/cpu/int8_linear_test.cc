#include "kernels/cpu/int8_linear.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/int8_paths.h"
#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

class Int8LinearTest : public testing::TestWithParam<Int8Path> {
 protected:
  const Int8LinearKernels& kernels() const { return *GetParam().kernels; }
  bool emulated() const { return GetParam().emulated; }
};
INSTANTIATE_TEST_SUITE_P(Cpu, Int8LinearTest, testing::ValuesIn(int8_paths()),
                         [](const testing::TestParamInfo<Int8Path>& tested) { return tested.param.name; });

struct Problem {
  int64_t rows = 0, inputs = 0, outputs = 0;
  Element y = Element::kF32;
  bool with_terms = false;  ///< row scales, quant_bias and bias
};

std::vector<int8_t> random_bytes(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<int8_t> bytes(static_cast<size_t>(count));
  for (int8_t& byte : bytes) byte = static_cast<int8_t>(generator());
  return bytes;
}

/// The terms of a product, made from a seed.
struct Terms {
  std::vector<float> scale, row_scales, bias;
  std::vector<int32_t> quant_bias;

  explicit Terms(const Problem& p)
      : scale(random_values(p.outputs, Element::kF32, 11, 0.01f)),
        row_scales(random_values(p.rows, Element::kF32, 12)),
        bias(random_values(p.outputs, Element::kF32, 13)) {
    std::mt19937 generator(14);
    for (int64_t n = 0; n < p.outputs; ++n) quant_bias.push_back(static_cast<int32_t>(generator()) / 1024);
  }
};

std::vector<char> pack(const Int8LinearKernels& kernels, const std::vector<int8_t>& weight, const Problem& p) {
  std::vector<char> packed(static_cast<size_t>(int8_packed_bytes(p.outputs, p.inputs)), 'x');
  const PackLinearArguments arguments{weight.data(), packed.data(), p.outputs, p.inputs, p.inputs};
  kernels.pack(&arguments, 0, pack_linear_tiles(p.outputs));
  return packed;
}

/// Runs a product in all cuts. Rows of x and y have gaps.
Buffer multiply(const Int8LinearKernels& kernels, const Problem& p, const std::vector<int8_t>& x_values,
                const std::vector<int8_t>& weight, const Terms& terms) {
  const int64_t x_stride = p.inputs + 3;
  std::vector<int8_t> x(static_cast<size_t>(p.rows * x_stride), 99);
  for (int64_t row = 0; row < p.rows; ++row) {
    std::copy_n(x_values.begin() + row * p.inputs, p.inputs, x.begin() + row * x_stride);
  }
  const std::vector<char> packed = pack(kernels, weight, p);
  Buffer y(p.y, p.rows * (p.outputs + 5));
  const Int8LinearArguments arguments{.x = x.data(),
                                      .weight = packed.data(),
                                      .scale = terms.scale.data(),
                                      .row_scales = p.with_terms ? terms.row_scales.data() : nullptr,
                                      .quant_bias = p.with_terms ? terms.quant_bias.data() : nullptr,
                                      .bias = p.with_terms ? terms.bias.data() : nullptr,
                                      .y = y.data(),
                                      .rows = p.rows,
                                      .inputs = p.inputs,
                                      .outputs = p.outputs,
                                      .x_row_stride = x_stride,
                                      .y_row_stride = p.outputs + 5,
                                      .y_element = p.y};
  run_in_all_cuts(kernels.linear, &arguments, linear_tiles(p.rows, p.outputs), {&y});
  return y;
}

/// Equality with the formula, bit by bit.
void expect_exact(const Int8LinearKernels& kernels, const Problem& p, const std::vector<int8_t>& x,
                  const std::vector<int8_t>& weight) {
  SCOPED_TRACE(testing::Message() << p.rows << "x" << p.inputs << "x" << p.outputs << " y" << int(p.y) << " terms "
                                  << p.with_terms);
  const Terms terms(p);
  const Buffer y = multiply(kernels, p, x, weight, terms);
  Buffer expected(p.y, p.rows * (p.outputs + 5));
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t n = 0; n < p.outputs; ++n) {
      const auto column = static_cast<size_t>(n);
      int64_t sum = p.with_terms ? terms.quant_bias[column] : 0;
      for (int64_t k = 0; k < p.inputs; ++k) {
        sum += x[static_cast<size_t>(row * p.inputs + k)] * weight[static_cast<size_t>(n * p.inputs + k)];
      }
      ASSERT_EQ(sum, static_cast<int32_t>(sum));
      float value = static_cast<float>(sum) * terms.scale[column];
      if (p.with_terms) {
        value *= terms.row_scales[static_cast<size_t>(row)];
        value += terms.bias[column];
      }
      expected.set(row * (p.outputs + 5) + n, value);
    }
  }
  EXPECT_TRUE(y.bytes() == expected.bytes());
}

constexpr int64_t kSizes[] = {0, 1, 3, 31, 63, 64, 65, 129, 1000};

TEST_P(Int8LinearTest, EqualsTheFormulaForAllSizes) {
  int variant = 0;
  for (const int64_t inputs : kSizes) {
    for (const int64_t outputs : kSizes) {
      if (inputs * outputs > (emulated() ? 5'000 : 200'000)) continue;
      for (const int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 13}) {
        if (emulated() && rows != 1 && rows != 7) continue;
        ++variant;
        const Problem p{rows, inputs, outputs, variant % 2 == 0 ? Element::kF32 : Element::kBf16, variant % 3 == 0};
        expect_exact(kernels(), p, random_bytes(rows * inputs, 1), random_bytes(outputs * inputs, 2));
      }
    }
  }
  for (const int64_t rows : kSizes) {
    if (emulated() && rows > 65) continue;
    const Problem p{rows, 65, 33, Element::kF32, true};
    expect_exact(kernels(), p, random_bytes(rows * 65, 3), random_bytes(33 * 65, 4));
  }
  if (emulated()) return;
  const Problem large{1, 1000, 1000, Element::kF32, true};
  expect_exact(kernels(), large, random_bytes(1000, 3), random_bytes(1'000'000, 4));
}

TEST_P(Int8LinearTest, GivesTheSameBitsHoweverItWalksOverTheWeight) {
  std::vector<Problem> problems = {{1, 67, 305},   {2, 1, 70},    {7, 130, 305},
                                   {8, 1030, 273}, {33, 65, 100}, {107, 9, 305}};
  if (emulated()) problems = {{1, 19, 305}, {2, 1, 70}, {7, 6, 137}};
  for (const Problem& p : problems) {
    SCOPED_TRACE(testing::Message() << p.rows << "x" << p.inputs << "x" << p.outputs);
    const std::vector<int8_t> x = random_bytes(p.rows * p.inputs, 5);
    const std::vector<char> packed = pack(kernels(), random_bytes(p.outputs * p.inputs, 6), p);
    const Terms terms(p);
    Buffer y(Element::kF32, p.rows * p.outputs);
    const Int8LinearArguments arguments{.x = x.data(),
                                        .weight = packed.data(),
                                        .scale = terms.scale.data(),
                                        .row_scales = terms.row_scales.data(),
                                        .quant_bias = terms.quant_bias.data(),
                                        .bias = terms.bias.data(),
                                        .y = y.data(),
                                        .rows = p.rows,
                                        .inputs = p.inputs,
                                        .outputs = p.outputs,
                                        .x_row_stride = p.inputs,
                                        .y_row_stride = p.outputs,
                                        .y_element = Element::kF32};
    run_with_all_tiles(kernels().linear, arguments, linear_tiles(p.rows, p.outputs), y);
  }
}

TEST_P(Int8LinearTest, DoesNotSaturateForTheExtremesOfAByte) {
  for (const int x : {-128, 127}) {
    for (const int w : {-128, 127}) {
      for (const int64_t inputs : {1, 3, 31, 63, 64, 65, 129, 1000, 131071}) {
        if (emulated() && inputs > 1000) continue;
        for (const int64_t rows : {1, 7}) {
          const Problem p{rows, inputs, 17, Element::kF32, false};
          expect_exact(kernels(), p, std::vector<int8_t>(static_cast<size_t>(rows * inputs), static_cast<int8_t>(x)),
                       std::vector<int8_t>(static_cast<size_t>(17 * inputs), static_cast<int8_t>(w)));
        }
      }
    }
  }
}

TEST_P(Int8LinearTest, GivesARowTheSameBitsAloneAndAmongOthers) {
  const Problem p{197, emulated() ? 19 : 131, 70, Element::kBf16, true};
  const std::vector<int8_t> x = random_bytes(p.rows * p.inputs, 5);
  const std::vector<int8_t> weight = random_bytes(p.outputs * p.inputs, 6);
  const Terms terms(p);
  Buffer all = multiply(kernels(), p, x, weight, terms);
  for (const int64_t row : {0, 1, 4, 5, 95, 96, 196}) {
    Problem one = p;
    one.rows = 1;
    Terms own = terms;
    own.row_scales = {terms.row_scales[static_cast<size_t>(row)]};
    Buffer alone =
        multiply(kernels(), one, {x.begin() + row * p.inputs, x.begin() + (row + 1) * p.inputs}, weight, own);
    EXPECT_EQ(std::memcmp(alone.at(0), all.at(row * (p.outputs + 5)), static_cast<size_t>(p.outputs) * 2), 0) << row;
  }
}

TEST_P(Int8LinearTest, ARowScaleThatIsNoNumberOrZeroStaysInItsRow) {
  const Problem p{9, 40, 50, Element::kF32, true};
  Terms terms(p);
  terms.bias.assign(terms.bias.size(), 0.0f);
  terms.quant_bias.assign(terms.quant_bias.size(), 0);
  terms.row_scales[2] = std::numeric_limits<float>::quiet_NaN();
  terms.row_scales[4] = std::numeric_limits<float>::infinity();
  terms.row_scales[7] = 0;
  const Buffer y =
      multiply(kernels(), p, random_bytes(p.rows * p.inputs, 7), random_bytes(p.outputs * p.inputs, 8), terms);
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t n = 0; n < p.outputs; ++n) {
      const float value = y.get(row * (p.outputs + 5) + n);
      EXPECT_EQ(std::isfinite(value), row != 2 && row != 4);
      if (row == 7) {
        EXPECT_EQ(value, 0.0f);
      }
    }
  }
}

TEST_P(Int8LinearTest, PacksTheSameForEveryInstructionSet) {
  for (const int64_t inputs : kSizes) {
    const Problem p{0, inputs, 37, Element::kF32, false};
    const std::vector<int8_t> weight = random_bytes(p.outputs * inputs, 9);
    EXPECT_EQ(pack(kernels(), weight, p), pack(int8_linear_kernels(InstructionSet::kPortable, false), weight, p));
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
