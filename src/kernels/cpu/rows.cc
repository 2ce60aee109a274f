#include "kernels/cpu/rows.h"

#include "kernels/cpu/quantize.h"

#define REPRISE_KERNELS "kernels/cpu/rows_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t cast_tiles(int64_t rows) { return rows; }
int64_t gather_rows_tiles(int64_t rows) { return rows; }
int64_t store_kv_tiles(int64_t tokens) { return tokens; }

const RowKernels& row_kernels(InstructionSet set) { return REPRISE_SELECT(set, kRowKernels); }

}  // namespace reprise::kernels::cpu
