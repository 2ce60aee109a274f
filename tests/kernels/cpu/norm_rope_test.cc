#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_testing.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"

namespace reprise::kernels::cpu {
namespace {

constexpr float kQuietNaN = std::numeric_limits<float>::quiet_NaN();

/// Fills a buffer [tokens, token_stride] whose heads lie head_stride apart; NaN in the gaps.
Buffer strided(Element element, const std::vector<float>& values, int64_t tokens, int64_t heads, int64_t width,
               int64_t token_stride, int64_t head_stride) {
  Buffer buffer = Buffer::from(element, std::vector<float>(size_t(tokens * token_stride), kQuietNaN));
  for (int64_t i = 0; i < tokens * heads * width; ++i) {
    buffer.set(i / width / heads * token_stride + i / width % heads * head_stride + i % width, values[size_t(i)]);
  }
  return buffer;
}

class NormTest : public KernelTest {};
REPRISE_KERNEL_TESTS(NormTest);

TEST_P(NormTest, NormalisesEachHeadOfEachToken) {
  for (Element element : kBothElements) {
    for (int64_t width : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 100, 129, 1024}) {
      for (int64_t heads : {1, 3}) {
        const int64_t tokens = 5;
        const int64_t head_stride = width + 2;
        const int64_t token_stride = heads * head_stride + 1;
        const std::vector<float> values = random_values(tokens * heads * width, element, 1, 3.0f);
        const Buffer x = strided(element, values, tokens, heads, width, token_stride, head_stride);
        const Buffer weight = Buffer::from(Element::kF32, random_values(width, Element::kF32, 2));
        Buffer y(element, tokens * heads * width);
        const RmsNormArguments arguments{x.data(),      static_cast<const float*>(weight.data()),
                                         y.data(),      tokens,
                                         heads,         width,
                                         token_stride,  head_stride,
                                         heads * width, width,
                                         1e-6f};
        run_in_all_cuts(norm_kernels(GetParam()).rms_norm[int(element)], &arguments, rms_norm_tiles(tokens, heads),
                        {&y});
        for (int64_t row = 0; row < tokens * heads; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < width; ++i) sum += std::pow(double(values[size_t(row * width + i)]), 2);
          const double scale = 1.0 / std::sqrt(sum / double(width) + 1e-6);
          for (int64_t i = 0; i < width; ++i) {
            expect_close(y.get(row * width + i), values[size_t(row * width + i)] * scale * weight.get(i), 0,
                         rounding_of(element) * 5, "y");
          }
        }
      }
    }
  }
}

TEST_P(NormTest, KeepsNaNOfOneRowAndWorksInPlace) {
  const int64_t width = 40;
  std::vector<float> values = random_values(3 * width, Element::kBf16, 1);
  values[size_t(width)] = kQuietNaN;
  Buffer x = Buffer::from(Element::kBf16, values);
  const Buffer weight = Buffer::from(Element::kF32, std::vector<float>(size_t(width), 1.0f));
  const RmsNormArguments arguments{
      x.data(), static_cast<const float*>(weight.data()), x.data(), 3, 1, width, width, width, width, width, 1e-6f};
  run_in_all_cuts(norm_kernels(GetParam()).rms_norm[1], &arguments, 3, {&x});
  for (int64_t i = 0; i < 3 * width; ++i) EXPECT_EQ(std::isnan(x.get(i)), i / width == 1);
}

class RopeTest : public KernelTest {};
REPRISE_KERNEL_TESTS(RopeTest);

TEST_P(RopeTest, TurnsPairsByTheTableOfTheirPosition) {
  const int64_t tokens = 6;
  const int64_t heads = 3;
  const int64_t max_position = 10;
  for (Element element : kBothElements) {
    for (int64_t width : {2, 4, 30, 32, 34, 64, 66, 128}) {
      const int64_t head_stride = width + 1;
      const int64_t token_stride = heads * head_stride;
      const std::vector<float> values = random_values(tokens * heads * width, element, 1);
      const Buffer x = strided(element, values, tokens, heads, width, token_stride, head_stride);
      const Buffer table = Buffer::from(Element::kF32, random_values(max_position * width, Element::kF32, 2));
      const std::vector<int32_t> positions = {0, 9, 4, -1, 10, 0x7FFFFFFF};
      Buffer y(element, tokens * heads * width);
      const RopeArguments arguments{x.data(),
                                    static_cast<const float*>(table.data()),
                                    positions.data(),
                                    y.data(),
                                    tokens,
                                    heads,
                                    width,
                                    max_position,
                                    token_stride,
                                    head_stride,
                                    heads * width,
                                    width};
      run_in_all_cuts(rope_kernels(GetParam()).rope[int(element)], &arguments, rope_tiles(tokens, heads), {&y});
      const int64_t half = width / 2;
      for (int64_t row = 0; row < tokens * heads; ++row) {
        const int32_t position = positions[size_t(row / heads)];
        for (int64_t i = 0; i < half; ++i) {
          float low = 0;
          float high = 0;
          if (position >= 0 && position < max_position) {
            const float a = values[size_t(row * width + i)];
            const float b = values[size_t(row * width + half + i)];
            const float c = table.get(position * width + i);
            const float s = table.get(position * width + half + i);
            low = a * c - b * s;
            high = b * c + a * s;
          }
          if (element == Element::kBf16) low = to_float(to_bfloat16(low));
          if (element == Element::kBf16) high = to_float(to_bfloat16(high));
          EXPECT_EQ(y.get(row * width + i), low);
          EXPECT_EQ(y.get(row * width + half + i), high);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
