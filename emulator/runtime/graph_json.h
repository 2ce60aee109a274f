// Graphs as text.
#pragma once

#include <string>

#include "emulator/runtime/captured_graph.h"

namespace reprise::emulator {

/// Lines of text: the streams and their tasks.
std::string describe(const CapturedGraph& graph);
/// Events as Chrome's trace viewer reads them: a row per stream, tasks in their order. `verbose` adds what they do.
/// 107000 when the file cannot be written.
Status write_json(const CapturedGraph& graph, const char* path, bool verbose);

}  // namespace reprise::emulator
