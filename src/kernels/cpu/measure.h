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

struct MeasureKernels {
  KernelFunction read_all[1];
};
const MeasureKernels& measure_kernels(InstructionSet set);

}  // namespace reprise::kernels::cpu
