#pragma once

namespace reprise::cli {

/// From here on the first Ctrl-C (or SIGTERM) only sets a flag, so that a command can end in order; a second one ends
/// the process at once. With `most_seconds`, so does a command that takes longer than that to end: whoever waits for a
/// device may wait for ever. Then the exit code is that of a cancelled run.
void watch_interrupts(unsigned most_seconds = 0);
/// For `most_seconds` of commands that run a model: how long a step may go on.
inline constexpr unsigned kSecondsToEnd = 3;
bool interrupted();
/// The command has stopped what it did: what is left to do may take its time.
void end_interrupt_limit();

/// From here on every Ctrl-C is only noted: for commands that go on afterwards.
void collect_interrupts();
/// Whether a Ctrl-C came since the last call.
bool take_interrupt();
/// Can be read from, for poll(), while a Ctrl-C is there to be taken. After collect_interrupts().
int interrupt_descriptor();

}  // namespace reprise::cli
