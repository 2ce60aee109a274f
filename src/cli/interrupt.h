#pragma once

namespace reprise::cli {

/// From here on the first Ctrl-C (or SIGTERM) only sets a flag, so that a command can end in order; a second one ends
/// the process at once.
void watch_interrupts();
bool interrupted();

}  // namespace reprise::cli
