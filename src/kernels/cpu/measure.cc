#include "kernels/cpu/measure.h"

#define REPRISE_KERNELS "kernels/cpu/measure_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t read_all_tiles(int64_t count, int64_t block) { return (count + block - 1) / block; }

const MeasureKernels& measure_kernels(InstructionSet set) { return REPRISE_SELECT(set, kMeasureKernels); }

}  // namespace reprise::kernels::cpu
