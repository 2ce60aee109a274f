#include "kernels/cpu/norm.h"

#define REPRISE_KERNELS "kernels/cpu/norm_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t rms_norm_tiles(int64_t tokens, int64_t heads) { return tokens * heads; }

const NormKernels& norm_kernels(InstructionSet set) { return REPRISE_SELECT(set, kNormKernels); }

}  // namespace reprise::kernels::cpu
