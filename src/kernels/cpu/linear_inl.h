// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/linear_tiles_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
constexpr Element kElementOf = sizeof(T) == 4 ? Element::kF32 : Element::kBf16;

template <int kRows, int kBlocks>
struct Accumulators {
  V at[kRows][kBlocks];
};

/// Two neighbouring values of x, each in all lanes.
REPRISE_INLINE void broadcast_pair(const float* x, V& first, V& second) {
  first = set(x[0]);
  second = set(x[1]);
}
REPRISE_INLINE void broadcast_pair(const Bf16* x, V& first, V& second) { set_pair(x, first, second); }

/// acc += x * W over all k, weights "n16".
template <int kRows, int kBlocks, typename X>
REPRISE_INLINE void accumulate(const X* x, int64_t x_row_stride, const float* weight, int64_t inputs,
                               const Ahead& ahead, Accumulators<kRows, kBlocks>& acc) {
  const int64_t block_stride = inputs * kLinearBlock;
  for_each_step<kBlocks>(ahead, inputs, [&](int64_t k) __attribute__((always_inline)) {
    V w[kBlocks];
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) w[b] = load(weight + b * block_stride + k * kLinearBlock);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V value = set(to_float(x[r * x_row_stride + k]));
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) acc.at[r][b] = fma(value, w[b], acc.at[r][b]);
    }
  });
}

/// One pair of k: first the even one, then the odd one.
template <int kRows, int kBlocks, typename X>
REPRISE_INLINE void accumulate_pair(const X* x, int64_t x_row_stride, const Bf16* weight, int64_t block_stride,
                                    Accumulators<kRows, kBlocks>& acc) {
  V w_first[kBlocks];
  V w_second[kBlocks];
#pragma GCC unroll 4
  for (int b = 0; b < kBlocks; ++b) load_pairs(weight + b * block_stride, w_first[b], w_second[b]);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    V x_first;
    V x_second;
    broadcast_pair(x + r * x_row_stride, x_first, x_second);
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) acc.at[r][b] = fma(x_first, w_first[b], acc.at[r][b]);
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) acc.at[r][b] = fma(x_second, w_second[b], acc.at[r][b]);
  }
}

/// acc += x * W over all k, weights "n16k2".
template <int kRows, int kBlocks, typename X>
REPRISE_INLINE void accumulate(const X* x, int64_t x_row_stride, const Bf16* weight, int64_t inputs, const Ahead& ahead,
                               Accumulators<kRows, kBlocks>& acc) {
  const int64_t block_stride = (inputs + 1) / 2 * 2 * kLinearBlock;
  for_each_step<kBlocks>(ahead, inputs / 2, [&](int64_t pair) __attribute__((always_inline)) {
    accumulate_pair<kRows, kBlocks>(x + 2 * pair, x_row_stride, weight + 2 * pair * kLinearBlock, block_stride, acc);
  });
  const int64_t k = inputs / 2 * 2;
  if (k < inputs) {
    X last[kRows][2] = {};
    for (int r = 0; r < kRows; ++r) last[r][0] = x[r * x_row_stride + k];
    accumulate_pair<kRows, kBlocks>(last[0], 2, weight + k * kLinearBlock, block_stride, acc);
  }
}

#if defined(REPRISE_HAS_BF16_DOT)
template <int kRows, int kBlocks>
REPRISE_INLINE void dot_pair(const Bf16* x, int64_t x_row_stride, const Bf16* weight, int64_t block_stride,
                             Accumulators<kRows, kBlocks>& acc) {
  __m512bh w[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
    const __m512i bits = _mm512_loadu_si512(weight + b * block_stride);
    memcpy(&w[b], &bits, sizeof(bits));
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    int32_t pair;
    memcpy(&pair, x + r * x_row_stride, sizeof(pair));
    const __m512i bits = _mm512_set1_epi32(pair);
    __m512bh value;
    memcpy(&value, &bits, sizeof(bits));
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) acc.at[r][b].all = _mm512_dpbf16_ps(acc.at[r][b].all, w[b], value);
  }
}

template <int kRows, int kBlocks>
REPRISE_INLINE void accumulate(const Bf16* x, int64_t x_row_stride, const Bf16* weight, int64_t inputs,
                               const Ahead& ahead, Accumulators<kRows, kBlocks>& acc) {
  const int64_t block_stride = (inputs + 1) / 2 * 2 * kLinearBlock;
  for_each_step<kBlocks>(ahead, inputs / 2, [&](int64_t pair) __attribute__((always_inline)) {
    dot_pair<kRows, kBlocks>(x + 2 * pair, x_row_stride, weight + 2 * pair * kLinearBlock, block_stride, acc);
  });
  const int64_t k = inputs / 2 * 2;
  if (k < inputs) {
    Bf16 last[kRows][2] = {};
    for (int r = 0; r < kRows; ++r) last[r][0] = x[r * x_row_stride + k];
    dot_pair<kRows, kBlocks>(last[0], 2, weight + k * kLinearBlock, block_stride, acc);
  }
}
#endif

template <int kRows, int kBlocks>
REPRISE_INLINE void add_bias(const LinearArguments& a, int64_t block, Accumulators<kRows, kBlocks>& acc) {
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
    const int64_t column = (block + b) * kLinearBlock;
    const V bias = load_up_to(a.bias + column, a.outputs - column);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc.at[r][b] = acc.at[r][b] + bias;
  }
}

/// `y`: of the first row and output of the tile, `left` outputs from there on.
template <int kRows, int kBlocks, typename Y>
REPRISE_INLINE void store_register_tile(Y* y, int64_t y_row_stride, int64_t left,
                                        const Accumulators<kRows, kBlocks>& acc) {
  if (left >= kBlocks * kLinearBlock) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) store(y + r * y_row_stride + b * kLinearBlock, acc.at[r][b]);
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) {
        store_up_to(y + r * y_row_stride + b * kLinearBlock, acc.at[r][b], left - b * kLinearBlock);
      }
    }
  }
}

/// Adds the bias, rounds and stores kRows rows times kBlocks blocks of 16 outputs.
template <int kRows, int kBlocks>
REPRISE_INLINE void finish_register_tile(const LinearArguments& a, int64_t row, int64_t block,
                                         Accumulators<kRows, kBlocks>& acc) {
  if (a.bias != nullptr) add_bias(a, block, acc);
  const int64_t column = block * kLinearBlock;
  const int64_t offset = row * a.y_row_stride + column;
  if (a.y_element == Element::kF32) {
    store_register_tile(static_cast<float*>(a.y) + offset, a.y_row_stride, a.outputs - column, acc);
  } else {
    store_register_tile(static_cast<Bf16*>(a.y) + offset, a.y_row_stride, a.outputs - column, acc);
  }
}

template <int kRows, int kBlocks>
REPRISE_INLINE void clear(Accumulators<kRows, kBlocks>& acc) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) acc.at[r][b] = zero();
  }
}

/// kRows rows times kBlocks blocks of 16 outputs.
template <int kRows, int kBlocks, typename X, typename W>
__attribute__((noinline)) void linear_register_tile(const LinearArguments& a, int64_t row, int64_t block,
                                                    const Ahead& ahead) {
  const X* x = static_cast<const X*>(a.x) + row * a.x_row_stride;
  const W* weight = static_cast<const W*>(a.weight) + block * packed_block_elements(kElementOf<W>, a.inputs);
  Accumulators<kRows, kBlocks> acc;
  clear(acc);
  accumulate<kRows, kBlocks>(x, a.x_row_stride, weight, a.inputs, ahead, acc);
  finish_register_tile(a, row, block, acc);
}

/// The most blocks (1, 2 or 4) that fit into the registers beside kRows rows.
constexpr int blocks_beside(int rows) {
  return rows == 1 || 4 * rows <= kRegisterBudget ? (kRegisterBudget >= 4 ? 4 : 2)
         : 2 * rows <= kRegisterBudget            ? 2
                                                  : 1;
}

template <int kRows, typename X, typename W>
REPRISE_INLINE void linear_rows(const LinearArguments& a, int64_t row, int64_t first_block, int64_t last_block,
                                Ahead ahead) {
  constexpr int kBlocks = blocks_beside(kRows);
  int64_t block = first_block;
  if constexpr (kRows == 1 && kRegisterBudget >= 16) {
    // More chains than it takes to hide the latency of a product, and fewer ends of them.
    for (; block + kOneRowBlocks <= last_block; block += kOneRowBlocks) {
      linear_register_tile<kRows, kOneRowBlocks, X, W>(a, row, block, ahead);
      ahead.at += kOneRowBlocks * ahead.block_stride;
    }
  }
  for (; block + kBlocks <= last_block; block += kBlocks) {
    linear_register_tile<kRows, kBlocks, X, W>(a, row, block, ahead);
    ahead.at += kBlocks * ahead.block_stride;
  }
  if constexpr (kBlocks > 1) {
    for (; block < last_block; ++block) {
      linear_register_tile<kRows, 1, X, W>(a, row, block, ahead);
      ahead.at += ahead.block_stride;
    }
  }
}

/// Rows that a register tile takes at most.
constexpr int64_t kLinearTileRows = kRegisterBudget >= 16 ? 8 : kMaxTileRows;

/// Rows [first_row, last_row) times blocks [first_block, last_block). `after`: the block that is needed next, or null.
template <typename X, typename W>
void linear_rectangle(const LinearArguments& a, int64_t first_row, int64_t last_row, int64_t first_block,
                      int64_t last_block, const void* after = nullptr) {
  const int64_t stride = packed_block_elements(kElementOf<W>, a.inputs) * static_cast<int64_t>(sizeof(W));
  const auto rows_over = [&](int64_t begin, int64_t end, int64_t first, int64_t rows, const Ahead& ahead) {
    const int64_t row = first_row + first;
    if constexpr (kLinearTileRows >= 8) {
      if (rows == 8) linear_rows<8, X, W>(a, row, begin, end, ahead);
    }
    if constexpr (kLinearTileRows >= 6) {
      if (rows == 6) linear_rows<6, X, W>(a, row, begin, end, ahead);
      if (rows == 4) linear_rows<4, X, W>(a, row, begin, end, ahead);
    }
    if (rows == 2) linear_rows<2, X, W>(a, row, begin, end, ahead);
    if (rows == 1) linear_rows<1, X, W>(a, row, begin, end, ahead);
  };
  for_each_panel<kLinearTileRows>(a.tiles, static_cast<const char*>(a.weight), stride, last_row - first_row,
                                  first_block, last_block, static_cast<const char*>(after), rows_over);
}

/// Tiles as for_each_rectangle deals them.
template <typename X, typename W>
void linear(const void* arguments, int64_t first, int64_t last) {
  const LinearArguments& a = *static_cast<const LinearArguments*>(arguments);
  for_each_rectangle(a.rows, first, last, [&](int64_t first_row, int64_t last_row, int64_t first_block, int64_t end) {
    linear_rectangle<X, W>(a, first_row, last_row, first_block, end);
  });
}

/// 16 values of a row as bfloat16.
REPRISE_INLINE void narrow(const float* from, int64_t count, Bf16* to) { store(to, load_up_to(from, count)); }
REPRISE_INLINE void narrow(const Bf16* from, int64_t count, Bf16* to) {
  memcpy(to, from, static_cast<size_t>(count) * sizeof(Bf16));
}

/// One block of `lanes` outputs with `inputs` inputs each, as "n16".
template <typename From>
REPRISE_INLINE void pack_block(const From* from, int64_t row_stride, int64_t lanes, int64_t inputs, float* to) {
  for (int64_t lane = 0; lane < kLinearBlock; ++lane) {
    for (int64_t k = 0; k < inputs; ++k) {
      to[k * kLinearBlock + lane] = lane < lanes ? to_float(from[lane * row_stride + k]) : 0.0f;
    }
  }
}

/// The same as "n16k2".
template <typename From>
REPRISE_INLINE void pack_block(const From* from, int64_t row_stride, int64_t lanes, int64_t inputs, Bf16* to) {
  // The padding of the last block and of an odd K.
  if (lanes < kLinearBlock || inputs % 2 != 0) {
    memset(to, 0, static_cast<size_t>(packed_block_elements(Element::kBf16, inputs)) * sizeof(Bf16));
  }
  for (int64_t k = 0; k < inputs; k += 16) {
    const int64_t count = smaller(16, inputs - k);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Bf16 values[16] = {};
      narrow(from + lane * row_stride + k, count, values);
      for (int64_t pair = 0; pair < (count + 1) / 2; ++pair) {
        memcpy(to + (k / 2 + pair) * 2 * kLinearBlock + 2 * lane, values + 2 * pair, 2 * sizeof(Bf16));
      }
    }
  }
}

/// Tile t: block t of the outputs.
template <typename From, typename To>
void pack_linear(const void* arguments, int64_t first, int64_t last) {
  const PackLinearArguments& a = *static_cast<const PackLinearArguments*>(arguments);
  for (int64_t block = first; block < last; ++block) {
    pack_block(static_cast<const From*>(a.weight) + block * kLinearBlock * a.row_stride, a.row_stride,
               smaller(kLinearBlock, a.outputs - block * kLinearBlock), a.inputs,
               static_cast<To*>(a.packed) + block * packed_block_elements(kElementOf<To>, a.inputs));
  }
}

/// kRows rows times one block of a plain weight, which is packed in pieces; the chains go on from piece to piece.
template <int kRows, typename X, typename W>
REPRISE_INLINE void linear_plain_tile(const LinearArguments& a, int64_t row, int64_t block) {
  constexpr int64_t kPiece = 256;
  alignas(64) W packed[kPiece * kLinearBlock];
  const X* x = static_cast<const X*>(a.x) + row * a.x_row_stride;
  const W* weight = static_cast<const W*>(a.weight) + block * kLinearBlock * a.weight_row_stride;
  const int64_t lanes = smaller(kLinearBlock, a.outputs - block * kLinearBlock);
  Accumulators<kRows, 1> acc;
  clear(acc);
  for (int64_t k = 0; k < a.inputs; k += kPiece) {
    const int64_t count = smaller(kPiece, a.inputs - k);
    pack_block(weight + k, a.weight_row_stride, lanes, count, packed);
    accumulate<kRows, 1>(x + k, a.x_row_stride, packed, count, Ahead(), acc);
  }
  finish_register_tile(a, row, block, acc);
}

/// Tiles as in linear().
template <typename X, typename W>
void linear_plain(const void* arguments, int64_t first, int64_t last) {
  const LinearArguments& a = *static_cast<const LinearArguments*>(arguments);
  const int64_t row_blocks = (a.rows + kLinearRowBlock - 1) / kLinearRowBlock;
  for (int64_t tile = first; tile < last; ++tile) {
    int64_t row = tile % row_blocks * kLinearRowBlock;
    const int64_t end = smaller(row + kLinearRowBlock, a.rows);
    for (; row + kMaxTileRows <= end; row += kMaxTileRows)
      linear_plain_tile<kMaxTileRows, X, W>(a, row, tile / row_blocks);
    for (; row < end; ++row) linear_plain_tile<1, X, W>(a, row, tile / row_blocks);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA

#include "kernels/cpu/grouped_linear_inl.h"

#include "kernels/cpu/experts_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

constexpr LinearKernels kLinearKernels = {
    {{linear<float, float>, linear<float, Bf16>}, {linear<Bf16, float>, linear<Bf16, Bf16>}},
    {{linear_plain<float, float>, linear_plain<float, Bf16>}, {linear_plain<Bf16, float>, linear_plain<Bf16, Bf16>}},
    {{pack_linear<float, float>, pack_linear<float, Bf16>}, {pack_linear<Bf16, float>, pack_linear<Bf16, Bf16>}},
    {{grouped_linear<float, float>, grouped_linear<float, Bf16>},
     {grouped_linear<Bf16, float>, grouped_linear<Bf16, Bf16>}},
    {{experts_up<float, float>, experts_up<float, Bf16>}, {experts_up<Bf16, float>, experts_up<Bf16, Bf16>}},
    {{experts_down<float, float>, experts_down<float, Bf16>}, {experts_down<Bf16, float>, experts_down<Bf16, Bf16>}}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
