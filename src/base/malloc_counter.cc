#include "base/malloc_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define REPRISE_COUNTS_MALLOC 1
#endif
#else
#define REPRISE_COUNTS_MALLOC 1
#endif
#endif

namespace {

std::atomic<int> counters{0};  ///< that count now: without any, allocating costs no atomic addition
std::atomic<int64_t> calls{0};

}  // namespace

#if defined(REPRISE_COUNTS_MALLOC)

namespace {

void count_call() {
  if (counters.load(std::memory_order_relaxed) > 0) calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// The C library lets programs replace malloc, and keeps its own under these names. Memory is its own either way, so
// that free() and malloc_usable_size() need no replacement.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count_call();
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  count_call();
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  count_call();
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  count_call();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  count_call();
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  count_call();
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* result = __libc_memalign(alignment, bytes);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

}  // extern "C"

#endif

namespace reprise {

bool MallocCounter::available() {
#if defined(REPRISE_COUNTS_MALLOC)
  return true;
#else
  return false;
#endif
}

MallocCounter::MallocCounter() : before_(calls.load(std::memory_order_relaxed)) {
  counters.fetch_add(1, std::memory_order_relaxed);
}

MallocCounter::~MallocCounter() { counters.fetch_sub(1, std::memory_order_relaxed); }

int64_t MallocCounter::count() const { return calls.load(std::memory_order_relaxed) - before_; }

}  // namespace reprise
