// Which addresses are the emulator's own code: reports name the program's.
#pragma once

namespace reprise::emulator {

/// The library that holds the address is the emulator's. Thread-safe, and cheap when it is known.
void add_own_code(const void* address);
bool is_own_code(const void* address);

}  // namespace reprise::emulator
