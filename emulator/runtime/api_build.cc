// Graphs built by hand: tasks of bound streams become the graph's.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

// Flags of a stream's place in the graph.
constexpr uint32_t kHead = 0x0;
constexpr uint32_t kDefault = 0x7fffffff;

// A graph that still takes tasks, and what the call names beside it.
Status find_building(aclmdlRI handle, std::shared_ptr<CapturedGraph>& graph) {
  if (Status status = find_graph(handle, graph); !status.ok()) return status;
  if (!graph->by_hand) {
    return Status(ACL_ERROR_RT_MODEL_CAPTURED, fmt::format("graph {} is a captured one", graph->id));
  }
  if (graph->state == CapturedGraph::State::kBuilding) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("graph {} is complete already", graph->id));
}

Status check_bound(const Stream& stream, const std::shared_ptr<CapturedGraph>& graph) {
  if (stream.bound == graph) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("stream {} is not bound to graph {}", stream.id, graph->id));
}

}  // namespace

aclError aclmdlRIBuildBegin(aclmdlRI* modelRI, uint32_t flag) {
  EMULATOR_CALL(Capture, modelRI, flag);
  EMULATOR_REQUIRE(modelRI);
  if (flag != 0) return call.result(ACL_ERROR_RT_PARAM_INVALID, "building a graph has no flags");
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(make_graph(*device, graph));
  graph->state = CapturedGraph::State::kBuilding;
  graph->by_hand = true;
  *modelRI = graph->handle;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag) {
  EMULATOR_CALL(Capture, modelRI, stream, flag);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(stream);
  if (flag != kHead && flag != kDefault)
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{:#x} is no place", flag));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find_building(modelRI, graph));
  EMULATOR_TRY(runtime.find_stream(stream, found));
  if (found->capture) {
    return call.result(ACL_ERROR_RT_STREAM_CAPTURED, fmt::format("stream {} is capturing", found->id));
  }
  if (found->bound) {
    return call.result(ACL_ERROR_RT_STREAM_MODEL, fmt::format("stream {} belongs to a graph already", found->id));
  }
  if (!(found->flags & ACL_STREAM_PERSISTENT)) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("stream {} is not a persistent one", found->id));
  }
  InnerStream* inner = nullptr;
  EMULATOR_TRY(graph->add_stream(found->id, &inner));
  // The head of the graph is where its replay begins.
  if (flag == kHead) std::rotate(graph->streams.begin(), graph->streams.end() - 1, graph->streams.end());
  found->bound = graph;
  found->inner = inner;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream) {
  EMULATOR_CALL(Other, modelRI, stream);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (!graph->by_hand) {
    return call.result(ACL_ERROR_RT_MODEL_CAPTURED, fmt::format("graph {} is a captured one", graph->id));
  }
  EMULATOR_TRY(runtime.find_stream(stream, found));
  EMULATOR_TRY(check_bound(*found, graph));
  found->bound = nullptr;
  found->inner = nullptr;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream) {
  EMULATOR_CALL(Capture, modelRI, stream);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find_building(modelRI, graph));
  EMULATOR_TRY(runtime.find_stream(stream, found));
  return call.result(check_bound(*found, graph));
}

aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void* reserve) {
  EMULATOR_CALL(Capture, modelRI, reserve);
  EMULATOR_REQUIRE(modelRI);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_building(modelRI, graph));
  EMULATOR_TRY(graph->set_up());
  graph->state = CapturedGraph::State::kReady;
  return call.result(ACL_SUCCESS);
}
