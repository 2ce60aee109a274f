#pragma once

#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kernel_types.h"

namespace reprise::kernels::cpu {

/// sums[i] = the sum of the words of block i, wrapping at 32 bits.
struct ReadAllArguments {
  const uint32_t* words;
  uint32_t* sums;
  int64_t count;  ///< of words
  int64_t block;  ///< words of a block
};
/// A tile is a block.
int64_t read_all_tiles(int64_t count, int64_t block);

/// sums[i] = factors[i] * 2^22, as the sum of that many products of factors[i] and 1: in registers, in as many chains
/// as keep the multipliers busy, with the instructions that products use. factors within 0 and 127.
struct MultiplyAddsArguments {
  const int32_t* factors;
  int32_t* sums;
  int64_t count;
};
/// A tile is one sum.
int64_t multiply_adds_tiles(int64_t count);

struct MeasureKernels {
  KernelFunction read_all[1];
  /// For products of float32, bfloat16 and int8.
  KernelFunction multiply_adds[3];
};
/// `int8_dot_products`: with the CPU's dot products of bytes; see has_int8_dot_products.
MeasureKernels measure_kernels(InstructionSet set, bool int8_dot_products);

}  // namespace reprise::kernels::cpu
