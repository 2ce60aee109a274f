#include "kernels/cpu/rows.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

class RowsTest : public KernelTest {};
REPRISE_KERNEL_TESTS(RowsTest);

float as(Element element, float value) { return element == Element::kF32 ? value : to_float(to_bfloat16(value)); }

TEST_P(RowsTest, CastsAndCopiesRows) {
  for (Element from : kBothElements) {
    for (Element to : kBothElements) {
      for (int64_t columns : {0, 1, 2, 3, 15, 16, 17, 33, 129}) {
        const int64_t rows = 4;
        const Buffer x = Buffer::from(from, random_values(rows * (columns + 2), from, 1));
        Buffer y(to, rows * (columns + 1));
        const std::vector<unsigned char> before = y.bytes();
        const CastArguments arguments{x.data(), y.data(), rows, columns, columns + 2, columns + 1};
        run_in_all_cuts(row_kernels(GetParam()).cast[int(from)][int(to)], &arguments, cast_tiles(rows), {&y});
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < columns; ++i) {
            EXPECT_EQ(y.get(row * (columns + 1) + i), as(to, x.get(row * (columns + 2) + i)));
          }
          EXPECT_EQ(std::memcmp(y.at(row * (columns + 1) + columns), before.data(), size_of(to)), 0) << "gap written";
        }
      }
    }
  }
}

TEST_P(RowsTest, RoundsToNearestEvenAndKeepsNaN) {
  std::vector<float> values = {0.0f, -0.0f, std::numeric_limits<float>::infinity(), 3.4e38f, 1e-40f, -1e-45f};
  for (uint32_t bits = 0; bits < 0x20000; bits += 0x0FFF) values.push_back(std::bit_cast<float>(0x3F800000u + bits));
  for (uint32_t bits : {0x3F808000u, 0x3F818000u, 0x3F808001u, 0x7FC00000u, 0x7F800001u, 0xFFFFFFFFu}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const Buffer x = Buffer::from(Element::kF32, values);
  Buffer y(Element::kBf16, x.count());
  const CastArguments arguments{x.data(), y.data(), 1, x.count(), x.count(), x.count()};
  run_in_all_cuts(row_kernels(GetParam()).cast[0][1], &arguments, 1, {&y});
  for (int64_t i = 0; i < x.count(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, y.at(i), 2);
    EXPECT_EQ(bits, to_bfloat16(values[size_t(i)]).bits);
  }
}

TEST_P(RowsTest, WidensEveryHalf) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  Buffer y(Element::kF32, 65536);
  const CastArguments arguments{halves.data(), y.data(), 1, 65536, 65536, 65536};
  run_in_all_cuts(row_kernels(GetParam()).cast[2][0], &arguments, 1, {&y});
  for (int64_t i = 0; i < 65536; ++i) {
    const int exponent = int(i >> 10 & 31);
    const double sign = (i & 0x8000) != 0 ? -1.0 : 1.0;
    const double mantissa = double(i & 1023);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(y.get(i)), mantissa != 0);
      if (mantissa == 0) {
        EXPECT_EQ(y.get(i), float(sign * std::numeric_limits<double>::infinity()));
      }
    } else {
      const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      EXPECT_EQ(y.get(i), float(sign * magnitude));
    }
  }
}

TEST_P(RowsTest, GathersRowsAndGivesNaNForUnknownIds) {
  for (Element from : kBothElements) {
    for (Element to : kBothElements) {
      for (int64_t columns : {1, 15, 16, 17, 64}) {
        const Buffer table = Buffer::from(from, random_values(9 * (columns + 3), from, 1));
        const std::vector<int32_t> ids = {0, 8, 3, 3, -1, 9, 0x7FFFFFFF, std::numeric_limits<int32_t>::min()};
        Buffer y(to, 8 * columns);
        const GatherRowsArguments arguments{table.data(), ids.data(), y.data(), 8, columns, 9, columns + 3, columns};
        run_in_all_cuts(row_kernels(GetParam()).gather_rows[int(from)][int(to)], &arguments, gather_rows_tiles(8),
                        {&y});
        for (int64_t i = 0; i < 8 * columns; ++i) {
          const int32_t id = ids[size_t(i / columns)];
          if (id >= 0 && id < 9) {
            EXPECT_EQ(y.get(i), as(to, table.get(id * (columns + 3) + i % columns)));
          } else {
            EXPECT_TRUE(std::isnan(y.get(i)));
          }
        }
      }
    }
  }
}

TEST_P(RowsTest, StoresKeysAndValuesIntoTheirSlotsOnly) {
  for (Element from : kBothElements) {
    for (Element to : kBothElements) {
      const int64_t columns = 36;
      const int64_t slots = 3 * 4;
      const Buffer key = Buffer::from(from, random_values(6 * columns, from, 1));
      const Buffer value = Buffer::from(from, random_values(6 * (columns + 5), from, 2));
      const std::vector<int32_t> ids = {7, -1, 0, 11, 12, 0x7FFFFFFF};
      Buffer keys = Buffer::from(to, std::vector<float>(size_t(slots * columns), -77.0f));
      Buffer values = keys;
      const StoreKvArguments arguments{.key = key.data(),
                                       .value = value.data(),
                                       .slots = ids.data(),
                                       .key_cache = keys.data(),
                                       .value_cache = values.data(),
                                       .key_scales = nullptr,
                                       .value_scales = nullptr,
                                       .tokens = 6,
                                       .columns = columns,
                                       .head_dim = columns,
                                       .slot_count = slots,
                                       .key_row_stride = columns,
                                       .value_row_stride = columns + 5};
      run_in_all_cuts(row_kernels(GetParam()).store_kv[int(from)][int(to)], &arguments, store_kv_tiles(6),
                      {&keys, &values});
      for (int64_t slot = 0; slot < slots; ++slot) {
        const int64_t token = slot == 7 ? 0 : slot == 0 ? 2 : slot == 11 ? 3 : -1;
        for (int64_t i = 0; i < columns; ++i) {
          EXPECT_EQ(keys.get(slot * columns + i), token < 0 ? -77.0f : as(to, key.get(token * columns + i)));
          EXPECT_EQ(values.get(slot * columns + i), token < 0 ? -77.0f : as(to, value.get(token * (columns + 5) + i)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::cpu
