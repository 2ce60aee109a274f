// Where calls on a stream go.
#pragma once

#include "emulator/runtime/task.h"

namespace reprise::emulator {

class Stream;

/// Hands a task to what the stream is at: its queue, the graph that records it, or a task update. The calling thread
/// pays `host_seconds` of the timing model. With Runtime::mutex() held.
Status submit(Stream& stream, TaskPointer task, double host_seconds);

}  // namespace reprise::emulator
