// Single tasks of a graph as the interface shows and changes them.
#pragma once

#include "emulator/runtime/captured_graph.h"

namespace reprise::emulator {

aclmdlRITaskType type_of(const Task& task);
/// Kernels' arguments are shown where the node keeps them: valid until the task or the graph changes.
Status get_params(const GraphNode& node, aclmdlRITaskParams& params);
/// Takes effect with apply_staged(). 107000 when the task is of another type.
Status stage_params(GraphNode& node, const aclmdlRITaskParams& params);
void apply_staged(CapturedGraph& graph);

}  // namespace reprise::emulator
