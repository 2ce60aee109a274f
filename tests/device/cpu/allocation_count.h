#pragma once

#include <cstdint>

namespace reprise::device::cpu {

/// Whether this build counts: the sanitizers bring their own allocators.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

/// Calls of malloc and its relatives by this process so far, on any thread.
int64_t allocation_count();

}  // namespace reprise::device::cpu
