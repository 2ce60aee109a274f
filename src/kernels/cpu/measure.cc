#include "kernels/cpu/measure.h"

#define REPRISE_KERNELS_USE_BF16_DOT 1
#define REPRISE_KERNELS_USE_INT8_DOT 1
#define REPRISE_KERNELS "kernels/cpu/measure_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t read_all_tiles(int64_t count, int64_t block) { return (count + block - 1) / block; }

int64_t multiply_adds_tiles(int64_t count) { return count; }

MeasureKernels measure_kernels(InstructionSet set, bool int8_dot_products) {
  MeasureKernels kernels = REPRISE_SELECT(set, kMeasureKernels);
#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
  if (int8_dot_products && set == InstructionSet::kAvx2) {
    kernels.multiply_adds[2] = avx2_vnni::kMeasureKernels.multiply_adds[2];
  } else if (int8_dot_products && set != InstructionSet::kPortable) {
    kernels.multiply_adds[2] = avx512_vnni::kMeasureKernels.multiply_adds[2];
  }
#else
  static_cast<void>(int8_dot_products);
#endif
  return kernels;
}

}  // namespace reprise::kernels::cpu
