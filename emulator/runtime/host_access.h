// Memory of the host that a program names and that need not be there.
#pragma once

#include <cstddef>

namespace reprise::emulator {

/// Whether every byte can be read. True also where the system does not let a process ask.
bool host_readable(const void* address, size_t bytes);
/// Whether every byte could be written. May put the first byte of `data` on each page, as the copy that follows does
/// again; a null `data` is zeros.
bool host_writable(void* address, const void* data, size_t bytes);

}  // namespace reprise::emulator
