#pragma once

#include "device/device.h"

namespace reprise::cli {

/// From here on the first Ctrl-C (or SIGTERM) only sets a flag, so that a command can end in order; a second one ends
/// the process at once. With `most_seconds`, so does a command that takes longer than that to end: whoever waits for a
/// device may wait for ever. Then the exit code is that of a cancelled run.
void watch_interrupts(unsigned most_seconds = 0);
/// For `most_seconds` of commands that run a model: how long the step of a device with cores of its own may go on. On
/// the host's cores nothing hangs, and a step that takes longer is still at work: 0.
unsigned seconds_to_end(const device::Device& device);
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
