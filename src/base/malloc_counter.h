#pragma once

#include <cstdint>

namespace reprise {

/// Counts what the process allocates: a program that uses this class replaces malloc and its kin by functions that
/// count and hand on to the C library. Where that is not possible (sanitizers, other C libraries) available() is false
/// and the counts stay 0.
class MallocCounter {
 public:
  static bool available();
  /// Counts on every thread from here on.
  MallocCounter();
  ~MallocCounter();
  MallocCounter(const MallocCounter&) = delete;
  MallocCounter& operator=(const MallocCounter&) = delete;

  /// Calls of malloc, calloc, realloc and the aligned ones since it was made.
  int64_t count() const;

 private:
  int64_t before_;
};

}  // namespace reprise
