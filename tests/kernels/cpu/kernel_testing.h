#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/product_tiles.h"
#include "tensor/bfloat16.h"

// What the tests of the CPU kernels share: buffers with guard zones, conversions, and running a launch in many cuts.

namespace reprise::kernels::cpu {

/// Memory of a tensor between two guard zones, in float32, bfloat16 or int8.
class Buffer {
 public:
  Buffer(Element element, int64_t count)
      : element_(element), count_(count), bytes_(2 * kGuard + byte_count(), kCanary) {}
  static Buffer from(Element element, const std::vector<float>& values) {
    Buffer buffer(element, static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) buffer.set(static_cast<int64_t>(i), values[i]);
    return buffer;
  }

  Element element() const { return element_; }
  int64_t count() const { return count_; }
  void* data() { return bytes_.data() + kGuard; }
  const void* data() const { return bytes_.data() + kGuard; }
  void* at(int64_t index) {
    return static_cast<unsigned char*>(data()) + static_cast<size_t>(index) * size_of(element_);
  }

  float get(int64_t index) const {
    if (element_ == Element::kF32) {
      float value;
      std::memcpy(&value, bytes_.data() + kGuard + 4 * index, 4);
      return value;
    }
    if (element_ == Element::kI8)
      return static_cast<float>(static_cast<int8_t>(bytes_[kGuard + static_cast<size_t>(index)]));
    BFloat16 value;
    std::memcpy(&value, bytes_.data() + kGuard + 2 * index, 2);
    return to_float(value);
  }
  void set(int64_t index, float value) {
    if (element_ == Element::kF32) {
      std::memcpy(at(index), &value, 4);
    } else if (element_ == Element::kI8) {
      bytes_[kGuard + static_cast<size_t>(index)] = static_cast<unsigned char>(static_cast<int8_t>(value));
    } else {
      const BFloat16 narrow = to_bfloat16(value);
      std::memcpy(at(index), &narrow, 2);
    }
  }
  std::vector<float> values() const {
    std::vector<float> result(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) result[static_cast<size_t>(i)] = get(i);
    return result;
  }
  /// Everything, guard zones included.
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  void restore(const std::vector<unsigned char>& bytes) { bytes_ = bytes; }
  bool guards_intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kCanary || bytes_[bytes_.size() - 1 - i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kCanary = 0xA5;
  size_t byte_count() const { return static_cast<size_t>(count_) * size_of(element_); }

  Element element_;
  int64_t count_;
  std::vector<unsigned char> bytes_;
};

/// Normally distributed values that the element type represents exactly.
inline std::vector<float> random_values(int64_t count, Element element, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = normal(generator);
    if (element == Element::kBf16) value = to_float(to_bfloat16(value));
  }
  return values;
}

/// Runs the tiles of one launch at once, one by one backwards, and in uneven pieces: all must leave the same bytes in
/// the outputs (the first run's stay) and the guard zones as they were.
inline void run_in_all_cuts(KernelFunction kernel, const void* arguments, int64_t tiles,
                            const std::vector<Buffer*>& outputs) {
  std::vector<std::vector<unsigned char>> before;
  for (const Buffer* output : outputs) before.push_back(output->bytes());
  const auto restore = [&] {
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->restore(before[i]);
  };
  for (int64_t tile = tiles; tile-- > 0;) kernel(arguments, tile, tile + 1);
  std::vector<std::vector<unsigned char>> single;
  for (const Buffer* output : outputs) single.push_back(output->bytes());
  restore();
  for (int64_t first = 0, size = 1; first < tiles; first += size, size = size * 2 + 1) {
    kernel(arguments, first, std::min(first + size, tiles));
  }
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i]->bytes() == single[i]) << "uneven pieces differ";
  restore();
  kernel(arguments, 0, tiles);
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(outputs[i]->bytes() == single[i]) << "all at once differs from one by one";
    EXPECT_TRUE(outputs[i]->guards_intact()) << "written outside of the output";
  }
}

/// Runs a product with every ProductTiles there is, and some that there are not: all must give the bytes of the
/// default.
template <typename Arguments>
void run_with_all_tiles(KernelFunction kernel, Arguments arguments, int64_t tiles, Buffer& y) {
  const std::vector<unsigned char> before = y.bytes();
  arguments.tiles = {};
  kernel(&arguments, 0, tiles);
  const std::vector<unsigned char> expected = y.bytes();
  std::vector<ProductTiles> ways(std::begin(kProductTiles), std::end(kProductTiles));
  ways.insert(ways.end(), {{1, 0}, {3, 7}, {1000, 100000}});
  for (const ProductTiles& way : ways) {
    SCOPED_TRACE(testing::Message() << "panel " << way.panel << ", start " << way.start_lines);
    y.restore(before);
    arguments.tiles = way;
    run_in_all_cuts(kernel, &arguments, tiles, {&y});
    EXPECT_TRUE(y.bytes() == expected);
  }
}

/// |actual - expected| <= absolute + relative * |expected|; a NaN fails.
inline void expect_close(float actual, double expected, double absolute, double relative, const std::string& what) {
  EXPECT_LE(std::abs(actual - expected), absolute + relative * std::abs(expected))
      << what << ": " << actual << " instead of " << expected;
}

/// Relative error of one rounding.
inline double rounding_of(Element element) { return element == Element::kF32 ? 1e-7 : 1.0 / 256; }

/// Tests with every instruction set that this CPU has.
class KernelTest : public testing::TestWithParam<InstructionSet> {};
#define REPRISE_KERNEL_TESTS(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Cpu, suite, testing::ValuesIn(available_instruction_sets()),     \
                           [](const testing::TestParamInfo<InstructionSet>& info_of_test) { \
                             return std::string(name_of(info_of_test.param));               \
                           })

inline constexpr Element kBothElements[] = {Element::kF32, Element::kBf16};

}  // namespace reprise::kernels::cpu
