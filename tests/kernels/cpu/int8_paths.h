#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "harness/avx_vnni.h"
#include "kernels/cpu/int8_linear.h"

namespace reprise::kernels::cpu {

/// Kernels of int8 products that this CPU can run, with a name for test cases.
struct Int8Path {
  std::string name;
  const Int8LinearKernels* kernels;
  bool emulated = false;  ///< dot products in software: a thousand times slower, so that the largest cases are left out

  friend void PrintTo(const Int8Path& path, std::ostream* out) { *out << path.name; }
};

/// Each instruction set of this CPU without dot products of bytes and with them, and AVX2 with emulated ones where it
/// has none.
inline std::vector<Int8Path> int8_paths() {
  std::vector<Int8Path> paths;
  for (const InstructionSet set : available_instruction_sets()) {
    paths.push_back({std::string(name_of(set)), &int8_linear_kernels(set, false)});
    if (has_int8_dot_products(set)) {
      paths.push_back({std::string(name_of(set)) + "_vnni", &int8_linear_kernels(set, true)});
    } else if (set == InstructionSet::kAvx2 && avx_vnni::emulate()) {
      paths.push_back({"avx2_vnni_emulated", &int8_linear_kernels(set, true), true});
    }
  }
  return paths;
}

}  // namespace reprise::kernels::cpu
