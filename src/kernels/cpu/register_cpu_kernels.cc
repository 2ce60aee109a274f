#include "kernels/cpu/register_cpu_kernels.h"

#include "kernels/cpu/register_families.h"

namespace reprise::kernels::cpu {

void register_cpu_kernels(ops::Registry& registry) {
  register_cpu_kernels(registry, instruction_set_from_environment());
}

void register_cpu_kernels(ops::Registry& registry, InstructionSet set) {
  register_rows(registry, set);
  register_elementwise(registry, set);
  register_int8_linear(registry, set);
  register_linear(registry, set);
  register_attention(registry, set);
  register_convolution(registry, set);
  register_measure(registry, set);
  register_moves(registry);
  register_quantize(registry, set);
  register_fused(registry, set);
  register_moe(registry, set);
  register_experts(registry, set);
}

}  // namespace reprise::kernels::cpu
