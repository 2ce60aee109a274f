#pragma once

namespace reprise::cli {

/// From here on the first Ctrl-C (or SIGTERM) only sets a flag, so that a command can end in order; a second one ends
/// the process at once.
void watch_interrupts();
bool interrupted();

/// From here on every Ctrl-C is only noted: for commands that go on afterwards.
void collect_interrupts();
/// Whether a Ctrl-C came since the last call.
bool take_interrupt();
/// Can be read from, for poll(), while a Ctrl-C is there to be taken. After collect_interrupts().
int interrupt_descriptor();

}  // namespace reprise::cli
