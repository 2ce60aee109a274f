// Where in the user's program something was called from.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::emulator {

// Taken while a call of the interface runs. Small: what is kept of millions of calls is one copy of each place.
class CallSite {
 public:
  // That of the call that this thread is in.
  static CallSite here();
  // Whether here() walks the stack (the validation layer wants it).
  static void keep_backtraces(bool keep);

  // "aclrtFree (thread 1) at PROGRAM(function+0x12) < PROGRAM(main+0x40)"; frames of the emulator's own are left out.
  std::string describe() const;
  // Whether it is one of a call.
  bool known() const { return place_ != nullptr; }
  // Equal for calls of one place, that is with the same frames.
  uint64_t fingerprint() const;

 private:
  struct Place;
  static const Place* keep(const Place& place);

  const Place* place_ = nullptr;  // lives as long as the process; null outside of calls
  uint32_t thread_ = 0;
};

}  // namespace reprise::emulator
