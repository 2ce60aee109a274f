// The kernels that foreach_instruction_set.h compiles for AVX-VNNI, compiled once more. Few CPUs have AVX-VNNI; many
// have the same dot products of 256 bits as a part of AVX512-VNNI, where only their encoding differs (EVEX instead of
// VEX). So what the kernels do with them is tested on those too.

#include "kernels/cpu/experts.h"
#include "kernels/cpu/int8_paths.h"

#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REPRISE_INLINE inline __attribute__((always_inline))
#define REPRISE_ISA avx2_vnni_evex
#define REPRISE_VECTOR_BITS 256
#define REPRISE_HAS_INT8_DOT 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512vl,avx512vnni")
#endif
// clang-format off: in the order of foreach_instruction_set.h
#include "kernels/cpu/vector_avx2_inl.h"
#include "kernels/cpu/int8_linear_inl.h"
// clang-format on
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace reprise::kernels::cpu {

const Int8LinearKernels* int8_linear_kernels_evex() {
  __builtin_cpu_init();
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return runs ? &avx2_vnni_evex::kInt8LinearKernels : nullptr;
}

}  // namespace reprise::kernels::cpu

#else

namespace reprise::kernels::cpu {

const Int8LinearKernels* int8_linear_kernels_evex() { return nullptr; }

}  // namespace reprise::kernels::cpu

#endif
