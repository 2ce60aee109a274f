#pragma once

#include <memory>

#include "kernels/cpu/instruction_set.h"
#include "ops/product_tuning.h"
#include "ops/registry.h"

namespace reprise::kernels::cpu {

// The parts of register_cpu_kernels(), by families.

void register_attention(ops::Registry& registry, InstructionSet set);
void register_convolution(ops::Registry& registry, InstructionSet set);
void register_elementwise(ops::Registry& registry, InstructionSet set);
void register_fused(ops::Registry& registry, InstructionSet set);
void register_int8_linear(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning);
void register_experts(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning);
void register_linear(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning);
void register_measure(ops::Registry& registry, InstructionSet set);
void register_moe(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning);
void register_moves(ops::Registry& registry);
void register_quantize(ops::Registry& registry, InstructionSet set);
void register_rows(ops::Registry& registry, InstructionSet set);

}  // namespace reprise::kernels::cpu
