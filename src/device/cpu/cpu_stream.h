#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "device/cpu/kernel.h"
#include "device/stream.h"

namespace reprise::device::cpu {

/// What the CPU's streams offer beyond the common interface: launching kernels.
class CpuStream : public Stream {
 public:
  /// Queues (or captures, or takes as an update) a launch of `tiles` tiles; 0 tiles run nothing but still count as a
  /// launch. The arguments are copied: first the struct, then at the next multiple of 8 the tail, whose length may
  /// change when a task update re-issues the launch. The kernel sees them as one block, see tail_of().
  virtual void launch(const Kernel& kernel, int64_t tiles, std::span<const std::byte> arguments,
                      std::span<const std::byte> tail) = 0;

  template <typename Arguments>
  void launch(const Kernel& kernel, int64_t tiles, Arguments arguments, std::span<const int32_t> tail = {}) {
    static_assert(std::is_trivially_copyable_v<Arguments> && alignof(Arguments) <= kMaxArgumentAlignment);
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&arguments);  // so that equal arguments are equal bytes, in dumps and hashes
#endif
    launch(kernel, tiles, std::as_bytes(std::span(&arguments, 1)), std::as_bytes(tail));
  }

  static constexpr size_t kMaxArgumentAlignment = 16;
};

/// Where a kernel finds the tail of its arguments.
template <typename Arguments>
const int32_t* tail_of(const void* arguments) {
  constexpr size_t kOffset = (sizeof(Arguments) + 7) / 8 * 8;
  return reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(arguments) + kOffset);
}

}  // namespace reprise::device::cpu
