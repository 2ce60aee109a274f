// Single tasks of a graph.
#include <fmt/format.h>

#include <cstring>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/graph_node_params.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

Status check_node_calls(const CapturedGraph& graph) {
  if (graph.device.profile.features.software_sq) return {};
  return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the driver of this device cannot show or change tasks of a graph");
}

Status find_node(aclmdlRITask handle, std::shared_ptr<GraphNode>& node) {
  node = Runtime::instance().handles().find<GraphNode>(handle);
  if (!node) return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no task of a live graph", handle));
  return check_node_calls(*node->stream->graph);
}

// Fills an array of handles, or tells how many there are. `count` is the array's size, then the number of handles.
template <typename Items, typename Handle>
Status list(const Items& items, void** array, uint32_t* count, const Handle& handle_of) {
  const auto size = static_cast<uint32_t>(items.size());
  if (!array) {
    *count = size;
    return {};
  }
  if (*count < size) {
    return Status(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY,
                  fmt::format("there are {} of them, and the array holds {}", size, *count));
  }
  *count = size;
  for (const auto& item : items) *array++ = handle_of(item);
  return {};
}

}  // namespace

aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream* streams, uint32_t* numStreams) {
  EMULATOR_CALL(Other, modelRI, streams, numStreams);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(numStreams);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  return call.result(list(graph->streams, streams, numStreams, [&](const std::unique_ptr<InnerStream>& stream) {
    // The graph owns its streams; the table only borrows them and is told when the graph ends.
    if (!stream->handle) stream->handle = runtime.handles().add(std::shared_ptr<InnerStream>(graph, stream.get()));
    return stream->handle;
  }));
}

aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask* tasks, uint32_t* numTasks) {
  EMULATOR_CALL(Other, stream, tasks, numTasks);
  EMULATOR_REQUIRE(stream);
  EMULATOR_REQUIRE(numTasks);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  const std::shared_ptr<InnerStream> found = runtime.handles().find<InnerStream>(stream);
  if (!found) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("{} is no stream of a graph (aclmdlRIGetStreams)", stream));
  }
  return call.result(list(found->nodes, tasks, numTasks, [&](const std::shared_ptr<GraphNode>& node) {
    if (!node->handle) node->handle = runtime.handles().add(node);
    return node->handle;
  }));
}

aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType* type) {
  EMULATOR_CALL(Other, task, type);
  EMULATOR_REQUIRE(task);
  EMULATOR_REQUIRE(type);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<GraphNode> node;
  EMULATOR_TRY(find_node(task, node));
  *type = type_of(*node->task);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t* seqId) {
  EMULATOR_CALL(Other, task, seqId);
  EMULATOR_REQUIRE(task);
  EMULATOR_REQUIRE(seqId);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<GraphNode> node;
  EMULATOR_TRY(find_node(task, node));
  *seqId = node->sequence;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams* params) {
  EMULATOR_CALL(Other, task, params);
  EMULATOR_REQUIRE(task);
  EMULATOR_REQUIRE(params);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<GraphNode> node;
  EMULATOR_TRY(find_node(task, node));
  return call.result(get_params(*node, *params));
}

aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams* params) {
  EMULATOR_CALL(Update, task, params);
  EMULATOR_REQUIRE(task);
  EMULATOR_REQUIRE(params);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<GraphNode> node;
  EMULATOR_TRY(find_node(task, node));
  return call.result(stage_params(*node, *params));
}

aclError aclmdlRITaskDisable(aclmdlRITask task) {
  EMULATOR_CALL(Update, task);
  EMULATOR_REQUIRE(task);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<GraphNode> node;
  EMULATOR_TRY(find_node(task, node));
  node->staged_disabled = true;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIUpdate(aclmdlRI modelRI) {
  EMULATOR_CALL(Update, modelRI);
  EMULATOR_REQUIRE(modelRI);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (graph->by_hand) {
    return call.result(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only captured graphs can be updated");
  }
  EMULATOR_TRY(check_node_calls(*graph));
  if (graph->state != CapturedGraph::State::kReady || graph->launches > 0) {
    return call.result(ACL_ERROR_RT_MODEL_UPDATE_FAILED, fmt::format("graph {} is being captured or runs", graph->id));
  }
  apply_staged(*graph);
  return call.result(ACL_SUCCESS);
}
