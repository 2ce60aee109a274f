#include "emulator/runtime/host_access.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace reprise::emulator {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kPagesAtOnce = 256;

// Makes the pages ready for reading or writing, as the first access would; false where that access would be a signal.
bool populate(const void* address, size_t bytes, int advice) {
  const uint64_t begin = reinterpret_cast<uint64_t>(address) / kPageBytes * kPageBytes;
  const uint64_t end = reinterpret_cast<uint64_t>(address) + bytes;
  if (end < begin) return false;
  int result = 0;
  do {
    result = madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0;
}

// Linux before 5.14 has no such advice.
bool can_populate() {
  static const bool can = [] {
    char here = 0;
    return populate(&here, 1, MADV_POPULATE_READ) && populate(&here, 1, MADV_POPULATE_WRITE);
  }();
  return can;
}

// Moves one byte of each page that the range touches by `move`, which is process_vm_readv or process_vm_writev: the
// system answers where a page is not there, instead of a signal. `near(offset, i)` is the byte on this side.
template <typename Move, typename Near>
bool touch_pages(const void* address, size_t bytes, Move move, Near near) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  if (begin + bytes < begin) return false;
  uint64_t next = begin;
  while (next < begin + bytes) {
    std::array<iovec, kPagesAtOnce> here{};
    std::array<iovec, kPagesAtOnce> there{};
    size_t count = 0;
    for (; count < kPagesAtOnce && next < begin + bytes; ++count) {
      there[count] = {reinterpret_cast<void*>(next), 1};
      here[count] = {near(next - begin, count), 1};
      next = (next / kPageBytes + 1) * kPageBytes;
    }
    const ssize_t moved = move(getpid(), here.data(), count, there.data(), count, 0);
    if (moved < 0 && (errno == ENOSYS || errno == EPERM)) return true;
    if (moved != static_cast<ssize_t>(count)) return false;
  }
  return true;
}

}  // namespace

bool host_readable(const void* address, size_t bytes) {
  if (bytes == 0) return true;
  if (can_populate()) return populate(address, bytes, MADV_POPULATE_READ);
  std::array<char, kPagesAtOnce> sink{};
  return touch_pages(address, bytes, process_vm_readv, [&](uint64_t, size_t i) { return &sink[i]; });
}

bool host_writable(void* address, const void* data, size_t bytes) {
  if (bytes == 0) return true;
  if (can_populate()) return populate(address, bytes, MADV_POPULATE_WRITE);
  static char zero = 0;
  auto* source = const_cast<char*>(static_cast<const char*>(data));
  return touch_pages(address, bytes, process_vm_writev,
                     [&](uint64_t offset, size_t) { return source ? source + offset : &zero; });
}

}  // namespace reprise::emulator
