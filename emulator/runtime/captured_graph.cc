#include "emulator/runtime/captured_graph.h"

#include <fmt/format.h>

#include "emulator/runtime/condition.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/task_group.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

Status CapturedGraph::add_stream(int32_t user_stream, InnerStream** stream) {
  if (!device.profile.features.software_sq) {
    if (!device.streams.take()) {
      return Status(ACL_ERROR_RT_NO_STREAM_RESOURCE,
                    fmt::format("stream resources insufficient for graph {}: all {} streams of device {} are taken", id,
                                device.streams.limit(), device.id));
    }
    ++streams_held_;
  }
  streams.push_back(std::make_unique<InnerStream>());
  InnerStream& added = *streams.back();
  added.graph = this;
  added.id = Runtime::instance().next_id();
  added.user_stream = user_stream;
  *stream = &added;
  return {};
}

Status CapturedGraph::append(InnerStream& stream, TaskPointer task, std::shared_ptr<GraphNode>* node) {
  const uint32_t needed = static_cast<uint32_t>(stream.nodes.size()) / device.profile.tasks_per_queue() + 1;
  if (needed > stream.queues) {
    if (!device.profile.features.software_sq) {
      if (!device.streams.take()) {
        return Status(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            fmt::format("graph {}: no stream is left to chain to a full one ({} tasks)", id, stream.nodes.size()));
      }
      ++streams_held_;
    }
    stream.queues = needed;
  }
  auto made = std::make_shared<GraphNode>();
  made->stream = &stream;
  made->sequence = next_sequence_++;
  made->task = std::move(task);
  Validation::instance().captured(*this, *made->task);
  stream.nodes.push_back(made);
  if (node) *node = std::move(made);
  return {};
}

Status CapturedGraph::add_edge(size_t* edge) {
  if (!device.events.take()) {
    return Status(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                  fmt::format("graph {}: all {} events of device {} are taken", id, device.events.limit(), device.id));
  }
  ++events_held_;
  *edge = edges_++;
  return {};
}

Status CapturedGraph::set_up() {
  if (!device.notifies.take()) {
    return Status(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, fmt::format("graph {}: all {} notifies of device {} are taken", id,
                                                               device.notifies.limit(), device.id));
  }
  ++notifies_held_;
  return {};
}

void CapturedGraph::release_resources() {
  device.streams.give_back(std::exchange(streams_held_, 0));
  device.events.give_back(std::exchange(events_held_, 0));
  device.notifies.give_back(std::exchange(notifies_held_, 0));
  if (std::exchange(model_held_, false)) device.models.give_back();
}

uint32_t CapturedGraph::queues() const {
  uint32_t count = 0;
  for (const std::unique_ptr<InnerStream>& stream : streams) count += stream->queues;
  for (const std::weak_ptr<CapturedGraph>& child : children) {
    if (const std::shared_ptr<CapturedGraph> live = child.lock()) count += live->queues();
  }
  return count;
}

Status find_graph(aclmdlRI handle, std::shared_ptr<CapturedGraph>& graph) {
  if (!handle) return Status(ACL_ERROR_INVALID_PARAM, "the graph is null");
  const HandleTable& handles = Runtime::instance().handles();
  graph = handles.find<CapturedGraph>(handle);
  if (graph) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} is no graph{}", handle,
                            handles.was_destroyed<CapturedGraph>(handle) ? " any more: it was destroyed" : ""));
}

Status make_graph(Device& device, std::shared_ptr<CapturedGraph>& graph) {
  if (!device.models.take()) {
    return Status(ACL_ERROR_RT_NO_MODEL_RESOURCE,
                  fmt::format("device {} holds {} graphs, which is all that it can", device.id, device.models.limit()));
  }
  Runtime& runtime = Runtime::instance();
  graph = std::make_shared<CapturedGraph>(device, runtime.next_id());
  graph->hold_model();
  graph->handle = runtime.handles().add(graph);
  Validation::instance().graph_made(graph);
  return {};
}

void release_graph(CapturedGraph& graph) {
  const std::shared_ptr<CapturedGraph> keep = graph.shared_from_this();
  HandleTable& handles = Runtime::instance().handles();
  handles.remove(graph.handle);
  Validation::instance().graph_released(graph);
  for (const std::shared_ptr<TaskGroup>& group : graph.groups) handles.remove(group->handle);
  for (const std::unique_ptr<InnerStream>& stream : graph.streams) {
    if (stream->handle) handles.remove(stream->handle);
    for (const std::shared_ptr<GraphNode>& node : stream->nodes) {
      if (node->handle) handles.remove(node->handle);
    }
  }
  for (const std::shared_ptr<Condition>& condition : graph.conditions) condition->release();
  graph.release_resources();
  for (const std::weak_ptr<CapturedGraph>& child : graph.children) {
    if (const std::shared_ptr<CapturedGraph> live = child.lock()) release_graph(*live);
  }
  graph.children.clear();
}

}  // namespace reprise::emulator
