#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// y = f(a, b), element by element over rows of contiguous columns, in float32 and rounded at the store. y may be a
/// or b.
struct ElementwiseArguments {
  const void* a;
  const void* b;  ///< null for the functions of one operand
  void* y;
  int64_t rows;
  int64_t columns;
  int64_t a_row_stride;
  int64_t b_row_stride;
  int64_t y_row_stride;
};
/// A tile is a piece of one row.
int64_t elementwise_tiles(int64_t rows, int64_t columns);

struct ElementwiseKernels {
  KernelFunction add[2];   ///< a + b; the index is the element of a, b and y
  KernelFunction mul[2];   ///< a * b
  KernelFunction silu[2];  ///< a / (1 + e^-a)
  /// silu(a) rounded as a store would, times b: bitwise what silu and mul give one after the other.
  KernelFunction silu_mul[2];
  KernelFunction divide[2];      ///< a / b
  KernelFunction reciprocal[2];  ///< 1 / a
};
const ElementwiseKernels& elementwise_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
