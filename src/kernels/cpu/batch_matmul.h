#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// y[i] = a[i] * b[i] for each of the batches: [rows, inner] times [inner, columns]. Each element of y is one chain of
/// fused multiply-adds over the inner axis in ascending order, whatever the number of rows; rounded once. Neighbours of
/// the last axes lie side by side.
struct BatchMatmulArguments {
  const void* a;
  const void* b;
  void* y;
  int64_t batches;
  int64_t rows;
  int64_t inner;
  int64_t columns;
  int64_t a_batch_stride;
  int64_t a_row_stride;
  int64_t b_batch_stride;
  int64_t b_row_stride;
  int64_t y_batch_stride;
  int64_t y_row_stride;
};
int64_t batch_matmul_tiles(int64_t batches, int64_t rows, int64_t columns);

struct BatchMatmulKernels {
  KernelFunction batch_matmul[2];  ///< [element of a, b and y]
};
const BatchMatmulKernels& batch_matmul_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
