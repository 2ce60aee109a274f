// Running, naming, printing and destroying graphs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/condition.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/graph_json.h"
#include "emulator/runtime/replay.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/task_group.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kLongestName = 512;

Status capture_goes_on(const CapturedGraph& graph) {
  if (!graph.capture.lock()) return {};
  return Status(ACL_ERROR_RT_MODEL_CAPTURED, fmt::format("graph {} is still being captured", graph.id));
}

// Waits until no launch of the graph is left; the wait has a limit, after which the graph counts as running.
Status await_end(Lock& lock, const CapturedGraph& graph) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(graph.device.profile.destroy_timeout_ms);
  while (graph.launches > 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(ACL_ERROR_RT_MODEL_RUNNING, fmt::format("graph {} is still running after {} ms", graph.id,
                                                            graph.device.profile.destroy_timeout_ms));
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    lock.lock();
  }
  return {};
}

}  // namespace

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  EMULATOR_CALL(Replay, modelRI, stream);
  EMULATOR_REQUIRE(modelRI);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  return call.result(launch_graph(graph, *target));
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  EMULATOR_CALL(Replay, modelRI, timeout);
  EMULATOR_REQUIRE(modelRI);
  if (timeout < -1 || timeout == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is -1 or positive, not {}", timeout));
  }
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  std::shared_ptr<Context> context;
  EMULATOR_TRY(runtime.current_context(context));
  // A stream of the call's own, so that it waits for the graph and nothing else.
  const auto stream = std::make_shared<Stream>(context, runtime.next_id(), 0, 0);
  EMULATOR_TRY(launch_graph(graph, *stream));
  context->streams.insert(stream);  // a reset of the device ends it
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::milliseconds(timeout);
  Status status = stream->synchronize(lock, limit);
  if (status.code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) stream->abort(lock, /*report=*/false);
  runtime.destroy_stream(lock, stream);
  return call.result(status);
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  EMULATOR_CALL(Other, modelRI);
  EMULATOR_REQUIRE(modelRI);
  Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  if (Status status = find_graph(modelRI, graph); !status.ok()) {
    Validation::instance().destroy_refused(ObjectKind::kGraph, modelRI);
    return call.result(status);
  }
  EMULATOR_TRY(capture_goes_on(*graph));
  if (graph->parent) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("graph {} belongs to a conditional task and ends with it", graph->id));
  }
  EMULATOR_TRY(await_end(lock, *graph));
  // Another thread may have destroyed it meanwhile.
  EMULATOR_TRY(find_graph(modelRI, graph));
  const std::vector<std::pair<aclrtCallback, void*>> callbacks = graph->destroy_callbacks;
  release_graph(*graph);
  lock.unlock();
  for (const auto& [function, data] : callbacks) function(data);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIAbort(aclmdlRI modelRI) {
  EMULATOR_CALL(Other, modelRI);
  EMULATOR_REQUIRE(modelRI);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (!graph->by_hand) {
    return call.result(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a captured graph cannot be aborted");
  }
  graph->abort_requested = true;
  Runtime::instance().progress().notify_all();
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  EMULATOR_CALL(Other, modelRI);
  EMULATOR_REQUIRE(modelRI);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  // The real one writes to the runtime's log.
  std::fputs(describe(*graph).c_str(), stderr);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags) {
  EMULATOR_CALL(Other, modelRI, path, flags);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(path);
  if (flags > ACL_MODEL_RI_JSON_VERBOSE) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no flag of a dump", flags));
  }
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  return call.result(write_json(*graph, path, flags == ACL_MODEL_RI_JSON_VERBOSE));
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  EMULATOR_CALL(Other, modelRI, name);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(name);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (std::strlen(name) >= kLongestName) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("a graph's name is shorter than {} characters", kLongestName));
  }
  graph->name = name;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  EMULATOR_CALL(Other, modelRI, maxLen);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(name);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (maxLen <= graph->name.size()) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("a name of {} characters does not fit into {} bytes", graph->name.size(), maxLen));
  }
  std::memcpy(name, graph->name.c_str(), graph->name.size() + 1);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  EMULATOR_CALL(Other, modelRI, modelRIId);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(modelRIId);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  *modelRIId = static_cast<uint32_t>(graph->id);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void* userData) {
  EMULATOR_CALL(Other, modelRI, userData);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(func);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  graph->destroy_callbacks.emplace_back(func, userData);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
  EMULATOR_CALL(Other, modelRI);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(func);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (std::erase_if(graph->destroy_callbacks, [&](const auto& it) { return it.first == func; }) == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("graph {} has no such callback", graph->id));
  }
  return call.result(ACL_SUCCESS);
}
