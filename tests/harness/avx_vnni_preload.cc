// A library to load into a program before its own (LD_PRELOAD): with REPRISE_DEBUG_AVX_VNNI=emulated and
// REPRISE_CPU_ISA=avx2 the program then runs its AVX-VNNI kernels on a CPU that lacks AVX-VNNI. At its end, the number
// of emulated instructions goes to the file that AVX_VNNI_COUNT_FILE names.

#include <cstdio>
#include <cstdlib>

#include "harness/avx_vnni.h"

namespace {

__attribute__((constructor)) void begin() { reprise::avx_vnni::emulate(); }

__attribute__((destructor)) void write_count() {
  const char* path = std::getenv("AVX_VNNI_COUNT_FILE");
  std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%llu\n", static_cast<unsigned long long>(reprise::avx_vnni::emulated_instructions()));
  std::fclose(file);
}

}  // namespace
