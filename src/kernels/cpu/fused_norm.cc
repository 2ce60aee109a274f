#include "kernels/cpu/fused_norm.h"

#define REPRISE_KERNELS "kernels/cpu/fused_norm_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t fused_norm_tiles(int64_t rows) { return rows; }

const FusedNormKernels& fused_norm_kernels(InstructionSet set) { return REPRISE_SELECT(set, kFusedNormKernels); }

}  // namespace reprise::kernels::cpu
