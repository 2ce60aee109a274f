// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/grouped_rows_inl.h"
#include "kernels/cpu/int8_dot_inl.h"
#include "kernels/cpu/linear_tiles_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Sums that fit into the registers beside weights and a group: 32 registers with AVX-512, 16 without.
constexpr int kInt8Budget = (REPRISE_VECTOR_BITS == 512 ? 24 : 12) / kSumRegisters;
constexpr int kInt8MaxRows = kInt8Budget >= 16 ? 8 : kInt8Budget >= 6 ? 6 : kInt8Budget >= 3 ? 3 : 1;

/// The most blocks (1, 2 or 4) that fit beside kRows rows.
constexpr int int8_blocks_beside(int rows) { return 4 * rows <= kInt8Budget ? 4 : 2 * rows <= kInt8Budget ? 2 : 1; }

template <int kRows, int kBlocks>
struct Int8Accumulators {
  Sums at[kRows][kBlocks];
};

/// Four inputs of kRows rows times kBlocks blocks.
template <int kRows, int kBlocks>
REPRISE_INLINE void add_group(const int8_t* x, int64_t x_row_stride, const int8_t* weight, int64_t block_stride,
                              Int8Accumulators<kRows, kBlocks>& acc) {
  Weights w[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) w[b] = load_weights(weight + b * block_stride);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Group group = broadcast_group(x + r * x_row_stride);
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) add_products(acc.at[r][b], group, w[b]);
  }
}

/// From sums to y.
template <int kRows, int kBlocks>
REPRISE_INLINE void finish_int8_tile(const Int8LinearArguments& a, int64_t row, int64_t block,
                                     const int32_t (&sums)[kRows][kBlocks][kLinearBlock]) {
  for (int b = 0; b < kBlocks; ++b) {
    const int64_t column = (block + b) * kLinearBlock;
    const int64_t left = a.outputs - column;
    const V scale = load_up_to(a.scale + column, left);
    for (int r = 0; r < kRows; ++r) {
      Sixteen sum = load_sixteen(sums[r][b]);
      if (a.quant_bias != nullptr) sum = sum + load_sixteen_up_to(a.quant_bias + column, left);
      V value = to_float(sum) * scale;
      if (a.row_scales != nullptr) value = value * set(a.row_scales[row + r]);
      if (a.bias != nullptr) value = value + load_up_to(a.bias + column, left);
      const int64_t offset = (row + r) * a.y_row_stride + column;
      if (a.y_element == Element::kF32) {
        store_up_to(static_cast<float*>(a.y) + offset, value, left);
      } else {
        store_up_to(static_cast<Bf16*>(a.y) + offset, value, left);
      }
    }
  }
}

/// kRows rows times kBlocks blocks of 16 outputs.
template <int kRows, int kBlocks>
__attribute__((noinline)) void int8_register_tile(const Int8LinearArguments& a, int64_t row, int64_t block,
                                                  const Ahead& ahead) {
  const int64_t block_stride = int8_block_bytes(a.inputs);
  const int8_t* x = a.x + row * a.x_row_stride;
  const int8_t* weight = static_cast<const int8_t*>(a.weight) + block * block_stride;
  // Loops over the sums are unrolled, so that those stay in registers.
  Int8Accumulators<kRows, kBlocks> acc;
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
    const Sums start = no_sums(weight + b * block_stride);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc.at[r][b] = start;
  }
  weight += kLinearBlock * static_cast<int64_t>(sizeof(int32_t));
  for_each_step<kBlocks>(ahead, a.inputs / 4, [&](int64_t step) __attribute__((always_inline)) {
    add_group<kRows, kBlocks>(x + 4 * step, a.x_row_stride, weight + 4 * step * kLinearBlock, block_stride, acc);
  });
  const int64_t k = a.inputs / 4 * 4;
  if (k < a.inputs) {
    int8_t last[kRows][4] = {};
    for (int r = 0; r < kRows; ++r) memcpy(last[r], x + r * a.x_row_stride + k, static_cast<size_t>(a.inputs - k));
    add_group<kRows, kBlocks>(last[0], 4, weight + k * kLinearBlock, block_stride, acc);
  }
  alignas(64) int32_t sums[kRows][kBlocks][kLinearBlock];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) store_sixteen(sums[r][b], finish_sums(acc.at[r][b]));
  }
  finish_int8_tile<kRows, kBlocks>(a, row, block, sums);
}

template <int kRows>
REPRISE_INLINE void int8_rows(const Int8LinearArguments& a, int64_t row, int64_t first_block, int64_t last_block,
                              Ahead ahead) {
  constexpr int kBlocks = int8_blocks_beside(kRows);
  int64_t block = first_block;
  if constexpr (kRows == 1 && kInt8Budget >= 16) {
    for (; block + kOneRowBlocks <= last_block; block += kOneRowBlocks) {
      int8_register_tile<kRows, kOneRowBlocks>(a, row, block, ahead);
      ahead.at += kOneRowBlocks * ahead.block_stride;
    }
  }
  for (; block + kBlocks <= last_block; block += kBlocks) {
    int8_register_tile<kRows, kBlocks>(a, row, block, ahead);
    ahead.at += kBlocks * ahead.block_stride;
  }
  if constexpr (kBlocks > 1) {
    for (; block < last_block; ++block) {
      int8_register_tile<kRows, 1>(a, row, block, ahead);
      ahead.at += ahead.block_stride;
    }
  }
}

/// Rows [first_row, last_row) times blocks [first_block, last_block). `after`: the block that is needed next, or null.
REPRISE_INLINE void int8_rectangle(const Int8LinearArguments& a, int64_t first_row, int64_t last_row,
                                   int64_t first_block, int64_t last_block, const char* after = nullptr) {
  const auto rows_over = [&](int64_t begin, int64_t end, int64_t first, int64_t rows, const Ahead& ahead) {
    const int64_t row = first_row + first;
    if constexpr (kInt8MaxRows >= 8) {
      if (rows == 8) int8_rows<8>(a, row, begin, end, ahead);
    }
    if constexpr (kInt8MaxRows >= 6) {
      if (rows == 6) int8_rows<6>(a, row, begin, end, ahead);
      if (rows == 4) int8_rows<4>(a, row, begin, end, ahead);
      if (rows == 2) int8_rows<2>(a, row, begin, end, ahead);
    }
    if constexpr (kInt8MaxRows == 3) {
      if (rows == 3) int8_rows<3>(a, row, begin, end, ahead);
    }
    if (rows == 1) int8_rows<1>(a, row, begin, end, ahead);
  };
  for_each_panel<kInt8MaxRows>(a.tiles, static_cast<const char*>(a.weight), int8_block_bytes(a.inputs),
                               last_row - first_row, first_block, last_block, after, rows_over);
}

inline void int8_linear(const void* arguments, int64_t first, int64_t last) {
  const Int8LinearArguments& a = *static_cast<const Int8LinearArguments*>(arguments);
  for_each_rectangle(a.rows, first, last, [&](int64_t first_row, int64_t last_row, int64_t first_block, int64_t end) {
    int8_rectangle(a, first_row, last_row, first_block, end);
  });
}

/// Tile t: block t of the outputs, for all experts.
inline void int8_grouped_linear(const void* arguments, int64_t first, int64_t last) {
  const Int8GroupedLinearArguments& a = *static_cast<const Int8GroupedLinearArguments*>(arguments);
  const int64_t expert_bytes = int8_packed_bytes(a.outputs, a.inputs);
  Int8LinearArguments one = {};
  one.x = a.x;
  one.row_scales = a.row_scales;
  one.y = a.rows.y;
  one.rows = a.rows.count;
  one.inputs = a.inputs;
  one.outputs = a.outputs;
  one.x_row_stride = a.x_row_stride;
  one.y_row_stride = a.outputs;
  one.y_element = a.rows.y_element;
  one.tiles = a.tiles;
  const auto weight_of = [&](int64_t expert) { return static_cast<const char*>(a.weight) + expert * expert_bytes; };
  for_each_group(a.rows, a.outputs, first, last, [&](int64_t expert, int64_t begin, int64_t end) {
    one.weight = weight_of(expert);
    one.scale = a.scale + expert * a.outputs;
    const int64_t next = next_group(a.rows, expert);
    int8_rectangle(one, begin, end, first, last,
                   next < 0 ? nullptr : weight_of(next) + first * int8_block_bytes(a.inputs));
  });
}

/// Tile t: block t of the outputs.
inline void pack_int8_linear(const void* arguments, int64_t first, int64_t last) {
  const PackLinearArguments& a = *static_cast<const PackLinearArguments*>(arguments);
  const int64_t block_bytes = int8_block_bytes(a.inputs);
  for (int64_t block = first; block < last; ++block) {
    const int8_t* from = static_cast<const int8_t*>(a.weight) + block * kLinearBlock * a.row_stride;
    char* to = static_cast<char*>(a.packed) + block * block_bytes;
    const int64_t lanes = smaller(kLinearBlock, a.outputs - block * kLinearBlock);
    memset(to, 0, static_cast<size_t>(block_bytes));
    char* weights = to + kLinearBlock * sizeof(int32_t);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int8_t* row = from + lane * a.row_stride;
      int32_t sum = 0;
      for (int64_t k = 0; k < a.inputs; ++k) sum += row[k];
      sum *= -128;
      memcpy(to + lane * static_cast<int64_t>(sizeof(sum)), &sum, sizeof(sum));
      int64_t k = 0;
      for (; k + 4 <= a.inputs; k += 4) memcpy(weights + k * kLinearBlock + 4 * lane, row + k, 4);
      if (k < a.inputs) memcpy(weights + k * kLinearBlock + 4 * lane, row + k, static_cast<size_t>(a.inputs - k));
    }
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA

#include "kernels/cpu/int8_experts_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

constexpr Int8LinearKernels kInt8LinearKernels = {
    int8_linear, pack_int8_linear, int8_grouped_linear, {int8_experts_down<float>, int8_experts_down<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
