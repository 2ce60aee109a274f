#include "kernels/cpu/causal_conv1d.h"

#include <limits>

#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

class CausalConv1dTest : public KernelTest {};
REPRISE_KERNEL_TESTS(CausalConv1dTest);

struct Layer {
  int64_t channels, width;
  Buffer weight, bias;
  Layer(int64_t channel_count, int64_t filter_width)
      : channels(channel_count),
        width(filter_width),
        weight(Buffer::from(Element::kF32, random_values(channel_count * filter_width, Element::kF32, 1))),
        bias(Buffer::from(Element::kF32, random_values(channel_count, Element::kF32, 2))) {}
};

/// One launch over sequences that lie one after the other in x.
void convolve(InstructionSet set, const Layer& layer, const Buffer& x, const std::vector<int32_t>& lengths,
              const std::vector<int32_t>& past, const std::vector<int32_t>& state_slots, Buffer& state, int64_t slots,
              Buffer& y, bool with_bias = true) {
  const auto sequences = int64_t(lengths.size());
  const size_t offset = (sizeof(CausalConv1dArguments) + 7) / 8;
  const auto tail_size = size_t(causal_conv1d_tail_size(sequences));
  std::vector<int64_t> block(offset + (tail_size + 1) / 2);
  const CausalConv1dPlan plan = plan_causal_conv1d(
      lengths, past, layer.channels, std::span(reinterpret_cast<int32_t*>(block.data() + offset), tail_size));
  const CausalConv1dArguments arguments{x.data(),
                                        static_cast<const float*>(layer.weight.data()),
                                        with_bias ? static_cast<const float*>(layer.bias.data()) : nullptr,
                                        state_slots.data(),
                                        state.data(),
                                        y.data(),
                                        sequences,
                                        layer.channels,
                                        layer.width,
                                        slots,
                                        layer.channels,
                                        layer.channels};
  std::memcpy(block.data(), &arguments, sizeof(arguments));
  run_in_all_cuts(causal_conv1d_kernels(set).causal_conv1d[int(x.element())], block.data(), plan.tiles, {&y, &state});
}

TEST_P(CausalConv1dTest, ConvolvesAWholeSequenceFromZeros) {
  for (Element element : kBothElements) {
    for (int64_t channels : {1, 15, 16, 17, 64, 70, 129}) {
      for (int64_t width : {1, 2, 4, 8}) {
        const Layer layer(channels, width);
        const int64_t rows = 11;
        const Buffer x = Buffer::from(element, random_values(rows * channels, element, 3));
        Buffer y(element, rows * channels);
        // What an earlier owner of the slot left must not count.
        Buffer state = Buffer::from(
            element, std::vector<float>(size_t((width - 1) * channels), std::numeric_limits<float>::quiet_NaN()));
        const bool with_bias = width != 2;
        convolve(GetParam(), layer, x, {int32_t(rows)}, {0}, {0}, state, 1, y, with_bias);
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t c = 0; c < channels; ++c) {
            double sum = with_bias ? layer.bias.get(c) : 0.0;
            for (int64_t j = 0; j < width; ++j) {
              const int64_t from = t - (width - 1) + j;
              if (from >= 0) sum += double(layer.weight.get(c * width + j)) * x.get(from * channels + c);
            }
            expect_close(y.get(t * channels + c), sum, 4e-6, rounding_of(element), "y");
          }
        }
        for (int64_t j = 0; j < width - 1; ++j) {
          for (int64_t c = 0; c < channels; ++c) {
            EXPECT_EQ(state.get(j * channels + c), x.get((rows - (width - 1) + j) * channels + c));
          }
        }
      }
    }
  }
}

TEST_P(CausalConv1dTest, GivesTheSameBitsInChunksAndInABatch) {
  const int64_t channels = 37;
  const int64_t width = 4;
  const int64_t row = channels;
  const Layer layer(channels, width);
  for (Element element : kBothElements) {
    const int64_t rows = 23;
    const std::vector<float> values = random_values(rows * channels, element, 3);
    Buffer whole(element, rows * row);
    Buffer state(element, (width - 1) * row);
    convolve(GetParam(), layer, Buffer::from(element, values), {int32_t(rows)}, {0}, {0}, state, 1, whole);

    Buffer states = Buffer::from(element, std::vector<float>(size_t(5 * (width - 1) * row), -5.0f));
    int32_t done = 0;
    for (int32_t chunk : {1, 1, 2, 5, 0, 14}) {
      // Sequence 0 is another one, 2 has no slot, 3 has nothing to do.
      const std::vector<float> other = random_values(3 * row, element, uint32_t(done + 10));
      std::vector<float> input = other;
      input.insert(input.end(), values.begin() + done * row, values.begin() + (done + chunk) * row);
      input.insert(input.end(), other.begin(), other.end());
      Buffer y(element, int64_t(input.size()));
      convolve(GetParam(), layer, Buffer::from(element, input), {3, chunk, 3, 0}, {0, done, 7, 9}, {4, 2, -1, 0},
               states, 5, y);
      EXPECT_EQ(std::memcmp(y.at(3 * row), whole.at(done * row), size_t(chunk * row) * size_of(element)), 0);
      done += chunk;
    }
    ASSERT_EQ(done, rows);
    EXPECT_EQ(std::memcmp(states.at(2 * (width - 1) * row), state.at(0), size_t((width - 1) * row) * size_of(element)),
              0);
    for (int64_t slot : {0, 1, 3}) {
      for (int64_t i = 0; i < (width - 1) * row; ++i) EXPECT_EQ(states.get(slot * (width - 1) * row + i), -5.0f);
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
