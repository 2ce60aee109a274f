#include "kernels/cpu/linear.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

class LinearTest : public KernelTest {};
REPRISE_KERNEL_TESTS(LinearTest);

struct LinearProblem {
  int64_t rows, inputs, outputs;
};

Buffer pack(InstructionSet set, const Buffer& weight, Element element, int64_t outputs, int64_t inputs) {
  Buffer packed(element, linear_blocks(outputs) * packed_block_elements(element, inputs));
  const PackLinearArguments arguments{weight.data(), packed.data(), outputs, inputs, inputs};
  run_in_all_cuts(linear_kernels(set).pack[int(weight.element())][int(element)], &arguments, pack_linear_tiles(outputs),
                  {&packed});
  return packed;
}

/// Runs one product against double arithmetic. Rows of x and y have gaps; those of y must stay as they were.
Buffer multiply(InstructionSet set, Element x_element, Element w_element, Element y_element, const LinearProblem& p,
                bool with_bias, const std::vector<float>& x_values, const std::vector<float>& w_values) {
  const int64_t x_stride = p.inputs + 3;
  const int64_t y_stride = p.outputs + 5;
  Buffer x(x_element, p.rows * x_stride);
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t k = 0; k < x_stride; ++k) {
      x.set(r * x_stride + k,
            k < p.inputs ? x_values[size_t(r * p.inputs + k)] : std::numeric_limits<float>::quiet_NaN());
    }
  }
  const Buffer packed = pack(set, Buffer::from(w_element, w_values), w_element, p.outputs, p.inputs);
  const Buffer bias = Buffer::from(Element::kF32, random_values(p.outputs, Element::kF32, 3));
  Buffer y(y_element, p.rows * y_stride);
  const Buffer before = y;
  LinearArguments arguments{x.data(),  packed.data(), with_bias ? static_cast<const float*>(bias.data()) : nullptr,
                            y.data(),  p.rows,        p.inputs,
                            p.outputs, x_stride,      y_stride,
                            y_element, p.inputs};
  const LinearKernels& kernels = linear_kernels(set);
  run_in_all_cuts(kernels.linear[int(x_element)][int(w_element)], &arguments, linear_tiles(p.rows, p.outputs), {&y});
  const Buffer plain = Buffer::from(w_element, w_values);
  Buffer from_plain = before;
  arguments.weight = plain.data();
  arguments.y = from_plain.data();
  run_in_all_cuts(kernels.linear_plain[int(x_element)][int(w_element)], &arguments, linear_tiles(p.rows, p.outputs),
                  {&from_plain});
  EXPECT_TRUE(from_plain.bytes() == y.bytes()) << "a plain weight gives other bits";
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t n = 0; n < p.outputs; ++n) {
      double sum = with_bias ? bias.get(n) : 0.0;
      double magnitude = std::abs(sum);
      for (int64_t k = 0; k < p.inputs; ++k) {
        const double product = double(x_values[size_t(r * p.inputs + k)]) * w_values[size_t(n * p.inputs + k)];
        sum += product;
        magnitude += std::abs(product);
      }
      expect_close(y.get(r * y_stride + n), sum, magnitude * 1e-6 + 1e-30, rounding_of(y_element), "y");
    }
    for (int64_t n = p.outputs; n < y_stride; ++n) {
      EXPECT_TRUE(std::memcmp(y.at(r * y_stride + n), before.bytes().data() + 256, size_of(y_element)) == 0);
    }
  }
  return y;
}

void multiply_random(InstructionSet set, const LinearProblem& p) {
  int variant = 0;
  for (Element x : kBothElements) {
    for (Element w : kBothElements) {
      for (Element y : kBothElements) {
        SCOPED_TRACE(testing::Message() << p.rows << "x" << p.inputs << "x" << p.outputs << " x" << int(x) << " w"
                                        << int(w) << " y" << int(y));
        multiply(set, x, w, y, p, ++variant % 2 == 0, random_values(p.rows * p.inputs, x, 1),
                 random_values(p.outputs * p.inputs, w, 2));
      }
    }
  }
}

TEST_P(LinearTest, MatchesDoubleArithmeticForOddSizes) {
  for (int64_t rows : {1, 2, 3, 5, 7, 8, 15, 16, 17}) {
    for (int64_t inputs : {1, 2, 17, 64}) {
      for (int64_t outputs : {1, 15, 16, 33, 65}) multiply_random(GetParam(), {rows, inputs, outputs});
    }
  }
  for (const LinearProblem& p : {LinearProblem{0, 5, 7},
                                 {3, 0, 7},
                                 {3, 5, 0},
                                 {33, 31, 129},
                                 {64, 129, 31},
                                 {193, 3, 82},
                                 {7, 600, 20},
                                 {2, 513, 33}}) {
    multiply_random(GetParam(), p);
  }
}

TEST_P(LinearTest, GivesARowTheSameBitsAloneAndAmongOthers) {
  const LinearProblem p{197, 131, 70};
  for (Element x_element : kBothElements) {
    for (Element w_element : kBothElements) {
      const std::vector<float> x = random_values(p.rows * p.inputs, x_element, 5);
      const std::vector<float> w = random_values(p.outputs * p.inputs, w_element, 6);
      const Buffer all = multiply(GetParam(), x_element, w_element, Element::kF32, p, true, x, w);
      for (int64_t row : {0, 1, 4, 5, 95, 96, 196}) {
        const std::vector<float> alone(x.begin() + row * p.inputs, x.begin() + (row + 1) * p.inputs);
        Buffer one =
            multiply(GetParam(), x_element, w_element, Element::kF32, {1, p.inputs, p.outputs}, true, alone, w);
        Buffer copy = all;
        EXPECT_EQ(std::memcmp(one.at(0), copy.at(row * (p.outputs + 5)), size_t(p.outputs) * 4), 0) << "row " << row;
      }
    }
  }
}

TEST_P(LinearTest, GivesTheSameBitsHoweverItWalksOverTheWeight) {
  for (const LinearProblem& p :
       {LinearProblem{1, 67, 305}, {2, 1, 70}, {7, 130, 305}, {8, 515, 273}, {33, 65, 100}, {107, 9, 305}}) {
    for (Element x_element : kBothElements) {
      for (Element w_element : kBothElements) {
        SCOPED_TRACE(testing::Message() << p.rows << "x" << p.inputs << "x" << p.outputs);
        const Buffer x = Buffer::from(x_element, random_values(p.rows * p.inputs, x_element, 21));
        const Buffer w = Buffer::from(w_element, random_values(p.outputs * p.inputs, w_element, 22));
        const Buffer packed = pack(GetParam(), w, w_element, p.outputs, p.inputs);
        Buffer y(Element::kF32, p.rows * p.outputs);
        const LinearArguments arguments{x.data(),  packed.data(), nullptr,   y.data(),      p.rows, p.inputs,
                                        p.outputs, p.inputs,      p.outputs, Element::kF32, 0};
        run_with_all_tiles(linear_kernels(GetParam()).linear[int(x_element)][int(w_element)], arguments,
                           linear_tiles(p.rows, p.outputs), y);
      }
    }
  }
}

TEST_P(LinearTest, KeepsNaNOfOneRowOutOfTheOthers) {
  const LinearProblem p{13, 40, 50};
  std::vector<float> x = random_values(p.rows * p.inputs, Element::kBf16, 7);
  const std::vector<float> w = random_values(p.outputs * p.inputs, Element::kBf16, 8);
  for (int64_t k = 0; k < p.inputs; ++k) x[size_t(6 * p.inputs + k)] = std::numeric_limits<float>::quiet_NaN();
  const Buffer packed = pack(GetParam(), Buffer::from(Element::kBf16, w), Element::kBf16, p.outputs, p.inputs);
  const Buffer input = Buffer::from(Element::kBf16, x);
  Buffer y(Element::kBf16, p.rows * p.outputs);
  const LinearArguments arguments{input.data(), packed.data(), nullptr,   y.data(),       p.rows, p.inputs,
                                  p.outputs,    p.inputs,      p.outputs, Element::kBf16, 0};
  run_in_all_cuts(linear_kernels(GetParam()).linear[1][1], &arguments, linear_tiles(p.rows, p.outputs), {&y});
  for (int64_t i = 0; i < y.count(); ++i) EXPECT_EQ(std::isnan(y.get(i)), i / p.outputs == 6);
}

TEST_P(LinearTest, PacksAndUnpacksRows) {
  const int64_t outputs = 37;
  const int64_t inputs = 51;
  for (Element from : kBothElements) {
    for (Element to : kBothElements) {
      const std::vector<float> w = random_values(outputs * inputs, from, 9);
      const Buffer packed = pack(GetParam(), Buffer::from(from, w), to, outputs, inputs);
      for (int64_t n = 0; n < outputs; ++n) {
        std::vector<float> row(inputs);
        unpack_linear_row(to, packed.data(), n, inputs, row.data());
        for (int64_t k = 0; k < inputs; ++k) {
          const float value = w[size_t(n * inputs + k)];
          EXPECT_EQ(row[size_t(k)], to == Element::kF32 ? value : to_float(to_bfloat16(value)));
        }
      }
      for (int64_t n = outputs; n < 48; ++n) {
        std::vector<float> row(inputs);
        unpack_linear_row(to, packed.data(), n, inputs, row.data());
        for (float value : row) EXPECT_EQ(value, 0.0f);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
