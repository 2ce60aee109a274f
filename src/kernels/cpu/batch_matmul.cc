#include "kernels/cpu/batch_matmul.h"

#define REPRISE_KERNELS "kernels/cpu/batch_matmul_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t batch_matmul_tiles(int64_t batches, int64_t rows, int64_t columns) {
  const int64_t row_blocks = (rows + kBatchMatmulRows - 1) / kBatchMatmulRows;
  return batches * row_blocks * ((columns + kBatchMatmulColumns - 1) / kBatchMatmulColumns);
}

const BatchMatmulKernels& batch_matmul_kernels(InstructionSet set) { return REPRISE_SELECT(set, kBatchMatmulKernels); }

}  // namespace reprise::kernels::cpu
