#include "kernels/cpu/instruction_set.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
#include <immintrin.h>
#include <signal.h>
#endif

namespace reprise::kernels::cpu {
namespace {

constexpr const char* kVariable = "REPRISE_CPU_ISA";
constexpr const char* kEmulatedVariable = "REPRISE_DEBUG_AVX_VNNI";

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

#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
/// One AVX-VNNI instruction on data that the compiler does not know.
__attribute__((target("avx2,avxvnni"), noinline)) bool avx_vnni_computes() {
  const volatile int one = 1;
  const __m256i sum =
      _mm256_dpbusd_avx_epi32(_mm256_set1_epi32(7 * one), _mm256_set1_epi8(static_cast<char>(200 * one)),
                              _mm256_set1_epi8(static_cast<char>(-100 * one)));
  const __m256i equal = _mm256_cmpeq_epi32(sum, _mm256_set1_epi32(7 + 4 * 200 * -100));
  return _mm256_movemask_epi8(equal) == -1;
}

/// Whether AVX-VNNI was asked for as REPRISE_DEBUG_AVX_VNNI does and something answers to its instructions. Without a
/// handler of SIGILL nothing does, and trying it would end the process.
bool emulates_avx_vnni() {
  struct sigaction action = {};
  if (sigaction(SIGILL, nullptr, &action) != 0) return false;
  const bool handled =
      (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
  return handled && __builtin_cpu_supports("avx2") && avx_vnni_computes();
}
#endif

/// REPRISE_DEBUG_AVX_VNNI is set to what it knows. Throws for any other value.
bool wants_emulated_avx_vnni() {
  const char* value = std::getenv(kEmulatedVariable);
  if (value == nullptr || *value == '\0') return false;
  if (std::string_view(value) == "emulated") return true;
  throw Error(ErrorCode::kInvalidArgument, "unknown value \"{}\" of {}", value, kEmulatedVariable)
      .remedy("the only one is emulated");
}

/// AVX-VNNI, of the CPU or emulated as the environment says. Throws when it says so and nothing emulates it.
bool has_avx_vnni() {
  const bool wants_emulated = wants_emulated_avx_vnni();
#if defined(__x86_64__) && !defined(REPRISE_PORTABLE_KERNELS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avxvnni")) return true;
  if (!wants_emulated) return false;
  if (emulates_avx_vnni()) return true;
#endif
  if (!wants_emulated) return false;
  throw Error(ErrorCode::kUnsupported, "{}=emulated, but nothing in this process emulates AVX-VNNI", kEmulatedVariable)
      .remedy("it is for tests that load such an emulation before the program; unset it");
}

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
  if (set == InstructionSet::kAvx2) return has_avx_vnni();
  __builtin_cpu_init();
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
  // Refused here when it cannot be had, whatever the instruction set.
  has_avx_vnni();
  const char* name = std::getenv(kVariable);
  return choose_instruction_set(name == nullptr ? "" : name);
}

}  // namespace reprise::kernels::cpu
