// The border between the emulator's runtime and its operators: what a kernel is to aclrtLaunchKernelV2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::emulator {

/// Where a kernel would run. An update of a task group may only replace a kernel by one of the same type.
enum class KernelType : uint32_t { kAiCore, kVector, kMix, kAiCpu };

/// What one run of a kernel moves and computes; the timing model turns it into a time.
struct KernelCost {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t multiply_adds = 0;
};

/// A kernel's own copy of this marks a pointer as one; any other aclrtFuncHandle is refused.
inline constexpr uint64_t kKernelMagic = 0x524550524b45524eU;

/// What an aclrtFuncHandle points at; it lives as long as the process. Arguments are bytes without pointers to host
/// memory (a variable tail is allowed): the launch copies them. They hold device addresses, and the kernel asks
/// emulatorHostAddress for each.
struct Kernel {
  uint64_t magic = kKernelMagic;
  const char* name = nullptr;
  KernelType type = KernelType::kAiCore;
  /// Runs the whole grid of `blocks`. False: an address was not a live allocation, which is a device fault. Never
  /// throws.
  bool (*run)(const void* arguments, size_t bytes, uint32_t blocks) = nullptr;
  /// What a run with these arguments would cost. May be null: only launches are counted then.
  KernelCost (*cost)(const void* arguments, size_t bytes) = nullptr;
};

}  // namespace reprise::emulator

/// Where the host finds `bytes` bytes at a device address. Null when they are not wholly inside one live allocation, or
/// when the emulator keeps device memory as address space only. Thread-safe; for kernels while they run.
extern "C" void* emulatorHostAddress(const void* device_address, size_t bytes);
