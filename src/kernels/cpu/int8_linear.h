#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/linear.h"

namespace reprise::kernels::cpu {

/// int8 weights [N, K] packed as "n16k4": for each block of 16 output features, int32 [16] with -128 times the sum of
/// each feature's weights (what dot products of unsigned by signed bytes are corrected by), then int8 [K/4][16][4], K
/// padded to a multiple of 4 and the last block to 16 features with zeros.
constexpr int64_t int8_block_bytes(int64_t inputs) { return kLinearBlock * (4 + (inputs + 3) / 4 * 4); }
constexpr int64_t int8_packed_bytes(int64_t outputs, int64_t inputs) {
  return linear_blocks(outputs) * int8_block_bytes(inputs);
}

/// y[M, N] = (x[M, K] * W[N, K]^T + quant_bias[N]) * scale[N] * row_scales[M] + bias[N]. The products and quant_bias
/// are summed exactly in int32 (which wraps around, from K = 131072 on at the earliest); the rest is float32 in the
/// order written, rounded once more to the element of y. Every instruction set gives the same bits.
struct Int8LinearArguments {
  const int8_t* x;
  const void* weight;         ///< packed
  const float* scale;         ///< N values
  const float* row_scales;    ///< M values, or null
  const int32_t* quant_bias;  ///< N values, or null
  const float* bias;          ///< N values, or null
  void* y;
  int64_t rows;     ///< M
  int64_t inputs;   ///< K
  int64_t outputs;  ///< N
  int64_t x_row_stride;
  int64_t y_row_stride;
  Element y_element;  ///< kF32 or kBf16
  ProductTiles tiles{};
};
/// Tiles are those of linear_tiles(rows, outputs).

/// y = (x * W[e]^T) * scale[e] * row_scales for the rows of each expert e, bit by bit as Int8LinearArguments gives it.
/// Tiles are those of grouped_linear_tiles(outputs).
struct Int8GroupedLinearArguments {
  GroupedRows rows;
  const int8_t* x;
  const void* weight;       ///< packed weights of the experts, one after the other
  const float* scale;       ///< [experts, outputs]
  const float* row_scales;  ///< a value for each row
  int64_t inputs;
  int64_t outputs;
  int64_t x_row_stride;
  ProductTiles tiles{};
};

/// Packs plain int8 weights; takes PackLinearArguments and pack_linear_tiles(outputs).
struct Int8LinearKernels {
  KernelFunction linear;
  KernelFunction pack;
  KernelFunction grouped;
  KernelFunction experts_down[2];  ///< [element of y], takes Int8ExpertsDownArguments, see experts.h
};
/// `dot_products`: those that use the CPU's dot products of bytes; see has_int8_dot_products.
const Int8LinearKernels& int8_linear_kernels(InstructionSet set, bool dot_products);

}  // namespace reprise::kernels::cpu
