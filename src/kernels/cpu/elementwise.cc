#include "kernels/cpu/elementwise.h"

#define REPRISE_KERNELS "kernels/cpu/elementwise_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t elementwise_tiles(int64_t rows, int64_t columns) {
  return rows * ((columns + kElementwiseColumns - 1) / kElementwiseColumns);
}

const ElementwiseKernels& elementwise_kernels(InstructionSet set) { return REPRISE_SELECT(set, kElementwiseKernels); }

}  // namespace reprise::kernels::cpu
