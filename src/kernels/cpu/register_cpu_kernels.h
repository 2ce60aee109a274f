#pragma once

#include "kernels/cpu/instruction_set.h"
#include "ops/registry.h"

namespace reprise::kernels::cpu {

/// Gives every operator of the catalogue that the registry holds its kernel for the device "cpu", compiled for one
/// instruction set: the environment's choice or the best of this CPU, see instruction_set_from_environment().
void register_cpu_kernels(ops::Registry& registry);
void register_cpu_kernels(ops::Registry& registry, InstructionSet set);

}  // namespace reprise::kernels::cpu
