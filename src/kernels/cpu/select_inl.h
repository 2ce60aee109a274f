#pragma once

#include "kernels/cpu/instruction_set.h"

// REPRISE_SELECT(set, name): the table `name` compiled for an instruction set. The bf16 dot products exist only where
// REPRISE_KERNELS_USE_BF16_DOT asked for them; elsewhere plain AVX-512 does the same.
#if !defined(__x86_64__) || defined(REPRISE_PORTABLE_KERNELS)
#define REPRISE_SELECT(set, name) (static_cast<void>(set), portable::name)
#elif defined(REPRISE_KERNELS_USE_BF16_DOT)
#define REPRISE_SELECT(set, name)                      \
  ((set) == InstructionSet::kPortable ? portable::name \
   : (set) == InstructionSet::kAvx2   ? avx2::name     \
   : (set) == InstructionSet::kAvx512 ? avx512::name   \
                                      : avx512_bf16::name)
#else
#define REPRISE_SELECT(set, name) \
  ((set) == InstructionSet::kPortable ? portable::name : (set) == InstructionSet::kAvx2 ? avx2::name : avx512::name)
#endif
