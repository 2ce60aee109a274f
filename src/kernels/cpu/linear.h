#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/product_tiles.h"

namespace reprise::kernels::cpu {

/// Output features (rows of W) that one block of a packed weight holds; the last block is padded with zeros.
inline constexpr int64_t kLinearBlock = 16;

/// Packed weights [N, K] in blocks of 16 output features. "n16" float32: [N/16][K][16]. "n16k2" bfloat16:
/// [N/16][K/2][16][2], K padded to even with a zero.
constexpr int64_t packed_block_elements(Element element, int64_t inputs) {
  return kLinearBlock * (element == Element::kF32 ? inputs : (inputs + 1) / 2 * 2);
}
constexpr int64_t linear_blocks(int64_t outputs) { return (outputs + kLinearBlock - 1) / kLinearBlock; }
/// Bytes of a packed weight; reads never go beyond.
constexpr int64_t packed_bytes(Element element, int64_t outputs, int64_t inputs) {
  return linear_blocks(outputs) * packed_block_elements(element, inputs) * static_cast<int64_t>(size_of(element));
}

/// y[M, N] = x[M, K] * W[N, K]^T + bias[N]. Each element of y is one chain of fused multiply-adds over k in ascending
/// order (in pairs of k for bfloat16 times bfloat16 on kAvx512Bf16), whatever M is; the bias is added to its end, then
/// the sum is rounded once. x and y must not overlap.
struct LinearArguments {
  const void* x;
  const void* weight;  ///< packed; for linear_plain [N, K] row by row
  const float* bias;   ///< N values, or null
  void* y;
  int64_t rows;     ///< M
  int64_t inputs;   ///< K
  int64_t outputs;  ///< N
  int64_t x_row_stride;
  int64_t y_row_stride;
  Element y_element;              ///< kF32 or kBf16, independent of x
  int64_t weight_row_stride = 0;  ///< linear_plain only
  ProductTiles tiles{};           ///< not of linear_plain
};
int64_t linear_tiles(int64_t rows, int64_t outputs);

/// Packs a plain weight (kF32 or kBf16, row stride in elements); narrowing rounds to nearest even.
struct PackLinearArguments {
  const void* weight;
  void* packed;
  int64_t outputs;
  int64_t inputs;
  int64_t row_stride;
};
int64_t pack_linear_tiles(int64_t outputs);

/// Rows in groups: those of expert e are [offsets[e], offsets[e + 1]); and where their products go.
struct GroupedRows {
  const int32_t* offsets;  ///< [experts + 1], ascending
  int64_t experts;
  int64_t count;  ///< of all rows; those behind offsets[experts] belong to no expert
  void* y;        ///< [count, outputs] without gaps; rows of no expert become 0
  Element y_element;
};

/// y = x * W[e]^T for the rows of each expert e, bit by bit as LinearArguments gives it.
struct GroupedLinearArguments {
  GroupedRows rows;
  const void* x;
  const void* weight;  ///< packed weights of the experts, one after the other
  int64_t inputs;
  int64_t outputs;
  int64_t x_row_stride;
  ProductTiles tiles{};
};
int64_t grouped_linear_tiles(int64_t outputs);

struct LinearKernels {
  KernelFunction linear[2][2];  ///< [element of x][element of the packed weight], takes LinearArguments
  /// The same sums, bit by bit, from a plain weight; packs as it goes and is several times slower.
  KernelFunction linear_plain[2][2];
  KernelFunction pack[2][2];          ///< [element of the plain weight][element of the packed one]
  KernelFunction grouped[2][2];       ///< [element of x][element of the packed weight], takes GroupedLinearArguments
  KernelFunction experts_up[2][2];    ///< as above, takes ExpertsUpArguments, see experts.h
  KernelFunction experts_down[2][2];  ///< takes ExpertsDownArguments
};
const LinearKernels& linear_kernels(InstructionSet set);

/// Row `output` of a packed weight as float32 [K].
void unpack_linear_row(Element element, const void* packed, int64_t output, int64_t inputs, float* row);

}  // namespace reprise::kernels::cpu
