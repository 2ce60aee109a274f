#include "kernels/cpu/elementwise.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

class ElementwiseTest : public KernelTest {};
REPRISE_KERNEL_TESTS(ElementwiseTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Buffer apply(KernelFunction kernel, const Buffer& a, const Buffer* b, int64_t rows, int64_t columns, int64_t stride) {
  Buffer y(a.element(), rows * columns);
  const ElementwiseArguments arguments{
      a.data(), b == nullptr ? nullptr : b->data(), y.data(), rows, columns, stride, stride, columns};
  run_in_all_cuts(kernel, &arguments, elementwise_tiles(rows, columns), {&y});
  return y;
}

TEST_P(ElementwiseTest, ComputesOddSizes) {
  const ElementwiseKernels& kernels = elementwise_kernels(GetParam());
  for (Element element : kBothElements) {
    const auto index = int(element);
    for (int64_t columns : {0, 1, 2, 15, 16, 17, 33, 64, 1024, 1025, 3000}) {
      const int64_t rows = 3;
      const int64_t stride = columns + 7;
      const Buffer a = Buffer::from(element, random_values(rows * stride, element, 1, 4.0f));
      const Buffer b = Buffer::from(element, random_values(rows * stride, element, 2, 4.0f));
      const Buffer sum = apply(kernels.add[index], a, &b, rows, columns, stride);
      const Buffer product = apply(kernels.mul[index], a, &b, rows, columns, stride);
      const Buffer silu = apply(kernels.silu[index], a, nullptr, rows, columns, stride);
      const Buffer fused = apply(kernels.silu_mul[index], a, &b, rows, columns, stride);
      const auto rounded = [&](float value) { return element == Element::kF32 ? value : to_float(to_bfloat16(value)); };
      for (int64_t i = 0; i < rows * columns; ++i) {
        const float x = a.get(i / columns * stride + i % columns);
        const float z = b.get(i / columns * stride + i % columns);
        EXPECT_EQ(sum.get(i), rounded(x + z));
        EXPECT_EQ(product.get(i), rounded(x * z));
        expect_close(silu.get(i), double(x) / (1.0 + std::exp(-double(x))), 0, rounding_of(element) * 5, "silu");
        EXPECT_EQ(fused.get(i), rounded(silu.get(i) * z)) << "the fused form differs from silu, then mul";
      }
    }
  }
}

TEST_P(ElementwiseTest, SiluHoldsAtTheEnds) {
  const std::vector<float> values = {0.0f,
                                     -0.0f,
                                     88.0f,
                                     -88.0f,
                                     100.0f,
                                     -100.0f,
                                     1e30f,
                                     -1e30f,
                                     kInfinity,
                                     1e-40f,
                                     std::numeric_limits<float>::quiet_NaN()};
  const Buffer a = Buffer::from(Element::kF32, values);
  const auto count = int64_t(values.size());
  const Buffer y = apply(elementwise_kernels(GetParam()).silu[0], a, nullptr, 1, count, count);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const double x = values[i];
    const double expected = std::isinf(x) ? x : x / (1.0 + std::exp(-x));
    if (std::isinf(expected)) {
      EXPECT_EQ(y.get(int64_t(i)), float(expected));
    } else {
      expect_close(y.get(int64_t(i)), expected, 1e-36, 1e-6, "silu of " + std::to_string(x));
    }
  }
  EXPECT_TRUE(std::isnan(y.get(count - 1)));
}

TEST_P(ElementwiseTest, ExponentialStaysWithinTwoUnitsInTheLastPlace) {
  // silu(-x) = -x / (1 + e^x): for large x that is e^-x but for a relative 2^-24 or less.
  std::vector<float> values;
  for (float x = -86.0f; x < -20.0f; x += 0.0137f) values.push_back(x);
  const Buffer a = Buffer::from(Element::kF32, values);
  const auto count = int64_t(values.size());
  const Buffer y = apply(elementwise_kernels(GetParam()).silu[0], a, nullptr, 1, count, count);
  for (int64_t i = 0; i < count; ++i) {
    const double x = values[size_t(i)];
    expect_close(y.get(i), x / (1.0 + std::exp(-x)), 0, 3.5 * 0x1p-23, "silu");
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
