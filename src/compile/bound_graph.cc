#include "compile/bound_graph.h"

#include <utility>

namespace reprise::compile {

void BoundGraph::Node::issue(device::Stream& stream, std::span<const ops::HostList> step_lists) {
  for (size_t i = 0; i < list_indices.size(); ++i) lists[i] = step_lists[static_cast<size_t>(list_indices[i])];
  ops::OpCall call{*op, inputs, lists, attributes, outputs, &stream, workspace, nullptr};
  if (kernel->plan != nullptr) {
    kernel->plan(call, tiling);
    call.tiling = &tiling;
  }
  kernel->run(call);
}

void BoundGraph::run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder,
                     int64_t first, int64_t last) {
  for (Node& node : std::span(nodes_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first))) {
    if (recorder == nullptr || !node.op->traits().host_tiled) {
      node.issue(stream, lists);
      continue;
    }
    recorder->before_group(stream);
    stream.begin_task_group();
    node.issue(stream, lists);
    device::TaskGroup* group = stream.end_task_group();
    recorder->record({group, [&node](device::Stream& update_stream, std::span<const ops::HostList> new_lists) {
                        node.issue(update_stream, new_lists);
                      }});
  }
}

}  // namespace reprise::compile
