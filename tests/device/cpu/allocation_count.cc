#include "device/cpu/allocation_count.h"

#include <atomic>
#include <cstddef>

namespace {

std::atomic<int64_t> count = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The C library's own functions under the names that it keeps for such wrappers.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t number, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(number, bytes);
}
void* realloc(void* block, size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace reprise::device::cpu {

int64_t allocation_count() { return count.load(std::memory_order_relaxed); }

}  // namespace reprise::device::cpu
