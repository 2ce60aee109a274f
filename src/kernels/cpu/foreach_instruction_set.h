// Compiles the file named by REPRISE_KERNELS once for each instruction set, each time inside its own namespace
// (reprise::kernels::cpu::portable, ::avx2, ::avx512, and where the .cc file asks for dot products ::avx512_bf16 or
// ::avx2_vnni and ::avx512_vnni) and with its own `V`, a vector of 16 floats. REPRISE_VECTOR_BITS is 0, 256 or 512.
//
// No include guard: a .cc file defines REPRISE_KERNELS and includes this once. All standard headers must come before,
// and the compiled files call no inline function of theirs: one that the linker shares between object files must not
// hold instructions that the running CPU may lack. For the same reason no source file is compiled with other -m flags.

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/kernel_types.h"

#define REPRISE_INLINE inline __attribute__((always_inline))

#define REPRISE_ISA portable
#define REPRISE_VECTOR_BITS 0
#include "kernels/cpu/vector_portable_inl.h"
#include REPRISE_KERNELS
#undef REPRISE_VECTOR_BITS
#undef REPRISE_ISA

#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)

#define REPRISE_VECTOR_BITS 256
#define REPRISE_ISA avx2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#include "kernels/cpu/vector_avx2_inl.h"
#include REPRISE_KERNELS
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef REPRISE_ISA

#if defined(REPRISE_KERNELS_USE_INT8_DOT)
#define REPRISE_ISA avx2_vnni
#define REPRISE_HAS_INT8_DOT 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif
#include "kernels/cpu/vector_avx2_inl.h"
#include REPRISE_KERNELS
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef REPRISE_HAS_INT8_DOT
#undef REPRISE_ISA
#endif
#undef REPRISE_VECTOR_BITS

#define REPRISE_VECTOR_BITS 512
#define REPRISE_ISA avx512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#include "kernels/cpu/vector_avx512_inl.h"
#include REPRISE_KERNELS
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef REPRISE_ISA

#if defined(REPRISE_KERNELS_USE_BF16_DOT)
#define REPRISE_ISA avx512_bf16
#define REPRISE_HAS_BF16_DOT 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif
#include "kernels/cpu/vector_avx512_inl.h"
#include REPRISE_KERNELS
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef REPRISE_HAS_BF16_DOT
#undef REPRISE_ISA
#endif

#if defined(REPRISE_KERNELS_USE_INT8_DOT)
#define REPRISE_ISA avx512_vnni
#define REPRISE_HAS_INT8_DOT 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif
#include "kernels/cpu/vector_avx512_inl.h"
#include REPRISE_KERNELS
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef REPRISE_HAS_INT8_DOT
#undef REPRISE_ISA
#endif
#undef REPRISE_VECTOR_BITS

#endif
