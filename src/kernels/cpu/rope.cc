#include "kernels/cpu/rope.h"

#define REPRISE_KERNELS "kernels/cpu/rope_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t rope_tiles(int64_t tokens, int64_t heads) { return tokens * heads; }

const RopeKernels& rope_kernels(InstructionSet set) { return REPRISE_SELECT(set, kRopeKernels); }

}  // namespace reprise::kernels::cpu
