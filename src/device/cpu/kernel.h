#pragma once

#include <cstdint>

namespace reprise::device::cpu {

/// A function that the CPU device launches. Launches refer to it by address: kernels are constants with static
/// lifetime.
struct Kernel {
  /// Shown in dumps, e.g. "rms_norm.bf16.avx512". What comes before the first '.' is the kernel's kind: an update of a
  /// captured launch may bring another kernel of the same kind.
  const char* name;
  /// Does the tiles [first, last) of the launch. Tiles of one launch are independent of each other: any thread may do
  /// any of them, at the same time. Must not throw, allocate, lock or block.
  void (*run)(const void* arguments, int64_t first, int64_t last);
};

}  // namespace reprise::device::cpu
