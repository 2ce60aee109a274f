#include "kernels/cpu/instruction_set.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace reprise::kernels::cpu {
namespace {

constexpr const char* kVariable = "REPRISE_CPU_ISA";

std::string names_of(const std::vector<InstructionSet>& sets) {
  std::string names;
  for (InstructionSet set : sets) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(set));
  return names;
}

#if defined(__x86_64__)
bool has_baseline() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
         __builtin_cpu_supports("popcnt");
}
#endif

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets = {InstructionSet::kPortable};
#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
  // The built-in also asks the operating system (XGETBV) whether it saves the wide registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    sets.push_back(InstructionSet::kAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      sets.push_back(InstructionSet::kAvx512);
      if (__builtin_cpu_supports("avx512bf16")) sets.push_back(InstructionSet::kAvx512Bf16);
    }
  }
#endif
  return sets;
}

bool has_int8_dot_products(InstructionSet set) {
#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
  __builtin_cpu_init();
  if (set == InstructionSet::kAvx2) return __builtin_cpu_supports("avxvnni");
  if (set != InstructionSet::kPortable) return __builtin_cpu_supports("avx512vnni");
#else
  static_cast<void>(set);
#endif
  return false;
}

InstructionSet choose_instruction_set(std::string_view name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!has_baseline()) {
    throw Error(ErrorCode::kUnsupported, "this CPU lacks SSE4.2 or POPCNT: Reprise needs x86-64-v2 or later");
  }
#endif
  const std::vector<InstructionSet> available = available_instruction_sets();
  if (name.empty()) return available.back();
  for (InstructionSet set : available) {
    if (name == name_of(set)) return set;
  }
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16}) {
    if (name == name_of(set)) {
      throw Error(ErrorCode::kUnsupported, "instruction set \"{}\" ({}) is not available on this CPU", name, kVariable)
          .remedy(fmt::format("available: {}", names_of(available)));
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "unknown instruction set \"{}\" ({})", name, kVariable)
      .remedy(fmt::format("available: {}", names_of(available)));
}

InstructionSet instruction_set_from_environment() {
  const char* name = std::getenv(kVariable);
  return choose_instruction_set(name == nullptr ? "" : name);
}

}  // namespace reprise::kernels::cpu
