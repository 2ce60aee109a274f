/* The border between the emulator's runtime and its operators: what a kernel is to aclrtLaunchKernelV2. Programs in C
 * can define kernels too. */
#ifndef REPRISE_EMULATOR_KERNEL_H
#define REPRISE_EMULATOR_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMULATOR_EXPORT __attribute__((visibility("default")))
/* A kernel's own copy of this marks a pointer as one; any other aclrtFuncHandle is refused. */
#define EMULATOR_KERNEL_MAGIC 0x524550524b45524eU

/* Called for each range of device memory that a kernel reads or writes. */
typedef void (*EmulatorMemoryVisitor)(void* context, const void* address, size_t bytes, bool writes);

#ifdef __cplusplus
namespace reprise::emulator {

/// Where a kernel would run. An update of a task group may only replace a kernel by one of the same type.
enum class KernelType : uint32_t { kAiCore, kVector, kMix, kAiCpu };

/// What one run of a kernel moves and computes; the timing model turns it into a time.
struct KernelCost {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  /// Of the matrix units.
  uint64_t multiply_adds = 0;
  /// Whether the matrix units multiply int8.
  bool integer = false;
};

inline constexpr uint64_t kKernelMagic = EMULATOR_KERNEL_MAGIC;

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
  /// Visits what a run with these arguments reads and writes, for the validation layer. May be null: then every word of
  /// the arguments that is an address of device memory counts as one that is read.
  void (*memory)(const void* arguments, size_t bytes, EmulatorMemoryVisitor visit, void* context) = nullptr;
};

}  // namespace reprise::emulator

extern "C" {
#else

/* The same for C; see above for what the members mean. */
typedef enum {
  EMULATOR_KERNEL_AI_CORE = 0,
  EMULATOR_KERNEL_VECTOR = 1,
  EMULATOR_KERNEL_MIX = 2,
  EMULATOR_KERNEL_AI_CPU = 3,
} EmulatorKernelType;

typedef struct {
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t multiply_adds;
  bool integer;
} EmulatorKernelCost;

typedef struct {
  uint64_t magic; /* EMULATOR_KERNEL_MAGIC */
  const char* name;
  EmulatorKernelType type;
  bool (*run)(const void* arguments, size_t bytes, uint32_t blocks);
  EmulatorKernelCost (*cost)(const void* arguments, size_t bytes);
  void (*memory)(const void* arguments, size_t bytes, EmulatorMemoryVisitor visit, void* context);
} EmulatorKernel;

#endif

/* Where the host finds `bytes` bytes at a device address. Null when they are not wholly inside one live allocation, or
 * when the emulator keeps device memory as address space only. Thread-safe; for kernels while they run. */
EMULATOR_EXPORT void* emulatorHostAddress(const void* device_address, size_t bytes);

/* For libraries of operators, at the start of a call: counts it as one of kind "operator" and answers the code that an
 * injected fault asks for, else 0. */
EMULATOR_EXPORT int emulatorOperatorFault(const char* name);
/* For libraries of operators, at the end of a call: writes the trace and, after a failure, keeps the text for
 * aclGetRecentErrMsg(). `text` may be null. */
EMULATOR_EXPORT void emulatorOperatorResult(const char* name, int code, const char* text);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* REPRISE_EMULATOR_KERNEL_H */
