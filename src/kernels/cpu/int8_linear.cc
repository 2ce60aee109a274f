#include "kernels/cpu/int8_linear.h"

#include "kernels/cpu/experts.h"

#define REPRISE_KERNELS_USE_INT8_DOT 1
#define REPRISE_KERNELS "kernels/cpu/int8_linear_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

const Int8LinearKernels& int8_linear_kernels(InstructionSet set, bool dot_products) {
#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
  if (dot_products && set == InstructionSet::kAvx2) return avx2_vnni::kInt8LinearKernels;
  if (dot_products && set != InstructionSet::kPortable) return avx512_vnni::kInt8LinearKernels;
#else
  static_cast<void>(dot_products);
#endif
  return REPRISE_SELECT(set, kInt8LinearKernels);
}

}  // namespace reprise::kernels::cpu
