#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernels/cpu/int8_linear.h"

namespace reprise::kernels::cpu {

/// Kernels of int8 products that this CPU can run, with a name for test cases.
struct Int8Path {
  std::string name;
  const Int8LinearKernels* kernels;

  friend void PrintTo(const Int8Path& path, std::ostream* out) { *out << path.name; }
};

/// The source of the AVX-VNNI kernels, with the same dot products in the encoding of AVX512-VNNI: null where this CPU
/// lacks them.
const Int8LinearKernels* int8_linear_kernels_evex();

/// Each instruction set of this CPU without dot products of bytes and with them where it has them, and
/// int8_linear_kernels_evex().
inline std::vector<Int8Path> int8_paths() {
  std::vector<Int8Path> paths;
  for (const InstructionSet set : available_instruction_sets()) {
    paths.push_back({std::string(name_of(set)), &int8_linear_kernels(set, false)});
    if (has_int8_dot_products(set)) {
      paths.push_back({std::string(name_of(set)) + "_vnni", &int8_linear_kernels(set, true)});
    }
  }
  if (const Int8LinearKernels* evex = int8_linear_kernels_evex()) paths.push_back({"avx2_vnni_evex", evex});
  return paths;
}

}  // namespace reprise::kernels::cpu
