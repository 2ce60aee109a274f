#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::kernels::cpu {

/// What the kernels of one run are compiled for, in ascending order. Within one of them all results are bitwise
/// reproducible; between two of them they may differ in the last bits.
enum class InstructionSet : uint8_t {
  kPortable,    ///< no intrinsics: x86-64-v2, or any other architecture
  kAvx2,        ///< AVX2, FMA, F16C
  kAvx512,      ///< AVX-512 F, BW, DQ, VL on top of that
  kAvx512Bf16,  ///< and its bfloat16 dot products
};

/// "portable", "avx2", "avx512", "avx512_bf16".
std::string_view name_of(InstructionSet set);

/// What this CPU and its operating system can run, ascending; always at least kPortable.
std::vector<InstructionSet> available_instruction_sets();

/// Whether this CPU has dot products of bytes that belong to an instruction set: AVX-VNNI to kAvx2, AVX512-VNNI to
/// those above. Sums of int8 products are exact with and without them, so they are no instruction set of their own.
/// With REPRISE_DEBUG_AVX_VNNI=emulated in the environment kAvx2 has them also where something else in this process
/// computes what the CPU cannot; throws kUnsupported where nothing does.
bool has_int8_dot_products(InstructionSet set);

/// The instruction set with this name, or the best available one for an empty name. Throws kInvalidArgument for an
/// unknown name, kUnsupported for one that this CPU lacks and for an x86 CPU below x86-64-v2.
InstructionSet choose_instruction_set(std::string_view name);

/// choose_instruction_set() of the environment variable REPRISE_CPU_ISA. Throws for a REPRISE_DEBUG_AVX_VNNI that
/// cannot be had, too.
InstructionSet instruction_set_from_environment();

}  // namespace reprise::kernels::cpu
