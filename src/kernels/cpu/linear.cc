#include "kernels/cpu/linear.h"

#include "kernels/cpu/experts.h"

#define REPRISE_KERNELS_USE_BF16_DOT 1
#define REPRISE_KERNELS "kernels/cpu/linear_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t linear_tiles(int64_t rows, int64_t outputs) {
  return linear_blocks(outputs) * ((rows + kLinearRowBlock - 1) / kLinearRowBlock);
}

int64_t pack_linear_tiles(int64_t outputs) { return linear_blocks(outputs); }

int64_t grouped_linear_tiles(int64_t outputs) { return linear_blocks(outputs); }

int64_t experts_up_tiles(int64_t columns) { return columns % kLinearBlock == 0 ? linear_blocks(columns) : 1; }

int64_t experts_down_tiles(int64_t columns) { return linear_blocks(columns); }

const LinearKernels& linear_kernels(InstructionSet set) { return REPRISE_SELECT(set, kLinearKernels); }

void unpack_linear_row(Element element, const void* packed, int64_t output, int64_t inputs, float* row) {
  const int64_t block = output / kLinearBlock * packed_block_elements(element, inputs);
  const int64_t lane = output % kLinearBlock;
  for (int64_t k = 0; k < inputs; ++k) {
    if (element == Element::kF32) {
      row[k] = static_cast<const float*>(packed)[block + k * kLinearBlock + lane];
    } else {
      const Bf16 value = static_cast<const Bf16*>(packed)[block + k / 2 * 2 * kLinearBlock + 2 * lane + k % 2];
      row[k] = portable::to_float(value);
    }
  }
}

}  // namespace reprise::kernels::cpu
