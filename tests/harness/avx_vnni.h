#pragma once

#include <cstdint>

// VPDPBUSD and VPDPBUSDS as AVX-VNNI encodes them (VEX), computed in software: what is compiled for AVX-VNNI runs on
// any x86-64 CPU with AVX2, one signal for each run of neighbouring instructions.
//
// A CPU without AVX-VNNI answers them with SIGILL. Its handler decodes the instruction, computes it on the registers
// that the kernel has saved for the signal, and goes on behind it. Where the CPU has AVX-VNNI no signal comes and
// nothing is emulated. Whatever else is illegal ends the process as without the handler.

namespace reprise::avx_vnni {

/// Whether this CPU executes the instructions itself.
bool cpu_has_it();

/// Installs the handler, once in a process. False, and nothing is installed, where the CPU or its operating system has
/// no AVX2.
bool emulate();

/// Instructions computed in software so far, in all threads.
uint64_t emulated_instructions();

}  // namespace reprise::avx_vnni
