#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"
#include "kernels/cpu/quantize.h"

namespace reprise::kernels::cpu {

/// sum = x + residual, rounded to its element; then the norm of that row as rms_norm computes it, rounded likewise, and
/// stored as it is (y), also widened (wide), or as int8 (quantized).
struct AddRmsNormArguments {
  const void* x;
  const void* residual;
  const float* weight;  ///< [columns]
  const float* bias;    ///< [columns], or null
  void* sum;            ///< [rows, columns]
  int64_t rows;
  int64_t columns;
  int64_t x_row_stride;
  int64_t residual_row_stride;
  float epsilon;
  float unused = 0;       ///< fills the gap
  void* y;                ///< [rows, columns], where it is stored
  float* wide;            ///< [rows, columns], of `cast`
  int8_t* quantized;      ///< [rows, columns], of `quantize` and `dynamic_quantize`
  QuantizeScales scales;  ///< of `quantize`
  const float* smooth_scales;
  float* row_scales;  ///< [rows], of `dynamic_quantize`
};

/// hidden = table[ids], converted, NaN (all bits set) outside of the table; its norm is stored as above.
struct EmbeddingRmsNormArguments {
  const void* table;
  const int32_t* ids;
  const float* weight;
  const float* bias;  ///< [columns], or null
  void* hidden;       ///< [rows, columns]
  int64_t rows;
  int64_t columns;
  int64_t table_rows;
  int64_t table_row_stride;
  float epsilon;
  float unused = 0;  ///< fills the gap
  void* y;
  int8_t* quantized;
  QuantizeScales scales;
  const float* smooth_scales;
  float* row_scales;
};
/// A tile is one row, in all of them.
int64_t fused_norm_tiles(int64_t rows);

struct FusedNormKernels {
  KernelFunction plain[2];  ///< [element of x, residual, sum and y]
  KernelFunction cast[2];
  KernelFunction quantize[2];
  KernelFunction dynamic_quantize[2];
  KernelFunction embedding[2][2];  ///< [element of the table][element of hidden and y]
  KernelFunction embedding_quantize[2][2];
  KernelFunction embedding_dynamic_quantize[2][2];
};
const FusedNormKernels& fused_norm_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
