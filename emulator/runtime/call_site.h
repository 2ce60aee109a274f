// Where in the user's program something was called from.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace reprise::emulator {

// Taken while a call of the interface runs. Cheap when backtraces are off: the name of the call and the address that it
// returns to.
struct CallSite {
  static constexpr int kFrames = 12;

  const char* call = nullptr;  // static text; null when there is none
  uint32_t thread = 0;
  int frame_count = 0;
  std::array<void*, kFrames> frames{};

  // That of the call that this thread is in.
  static CallSite here();
  // Whether here() walks the stack (the validation layer wants it).
  static void keep_backtraces(bool keep);

  // "aclrtFree (thread 1) at PROGRAM(function+0x12) < PROGRAM(main+0x40)"; frames of the emulator's own are left out.
  std::string describe() const;
  // Equal for calls of one place, that is with the same frames.
  uint64_t fingerprint() const;
};

}  // namespace reprise::emulator
