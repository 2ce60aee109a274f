#include "kernels/cpu/quantize.h"

#define REPRISE_KERNELS "kernels/cpu/quantize_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t quantize_tiles(int64_t rows) { return rows; }

const QuantizeKernels& quantize_kernels(InstructionSet set) { return REPRISE_SELECT(set, kQuantizeKernels); }

}  // namespace reprise::kernels::cpu
