#include "kernels/cpu/split_qkv.h"

#include "kernels/cpu/quantize.h"

#define REPRISE_KERNELS "kernels/cpu/split_qkv_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t split_qkv_tiles(int64_t tokens, int64_t heads, int64_t kv_heads) { return tokens * (heads + kv_heads); }

int64_t split_qkv_store_tiles(int64_t tokens, int64_t heads, int64_t kv_heads) {
  return tokens * (heads + 2 * kv_heads);
}

const SplitQkvKernels& split_qkv_kernels(InstructionSet set) { return REPRISE_SELECT(set, kSplitQkvKernels); }

}  // namespace reprise::kernels::cpu
