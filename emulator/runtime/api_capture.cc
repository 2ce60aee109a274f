// Capturing graphs.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/capture.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/task_group.h"
#include "emulator/runtime/thread_state.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

Status check_mode(int mode) {
  if (mode >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no mode of a capture", mode));
}

Status check_graphs(const Stream& stream) {
  if (stream.device().profile.features.graphs) return {};
  return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the driver of this device has no captured graphs");
}

// The stream of a capture call, for which null is not the default one.
Status find(aclrtStream handle, std::shared_ptr<Stream>& stream) {
  Status status = Runtime::instance().find_stream(handle, stream);
  return status.ok() ? check_graphs(*stream) : status;
}

}  // namespace

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  EMULATOR_CALL(Capture, stream, mode);
  EMULATOR_REQUIRE(stream);
  EMULATOR_TRY(check_mode(mode));
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  return call.result(Capture::begin(found, mode));
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode) {
  EMULATOR_CALL(Capture, stream, modelRI, mode);
  EMULATOR_REQUIRE(stream);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_TRY(check_mode(mode));
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  if (!graph->parent || graph->state != CapturedGraph::State::kBuilding) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("graph {} is none of a conditional task that waits for its tasks", graph->id));
  }
  return call.result(Capture::begin(found, mode, graph));
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  EMULATOR_CALL(Other, stream, status, modelRI);
  EMULATOR_REQUIRE(stream);
  if (!status && !modelRI) return call.null_argument("status and modelRI");
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  const Capture* capture = found->capture.get();
  if (status) {
    *status = !capture            ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
              : capture->active() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
                                  : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
  }
  if (modelRI) *modelRI = capture ? capture->graph->handle : nullptr;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  EMULATOR_CALL_NEEDS(kInitAndEnd, Capture, stream, modelRI);
  EMULATOR_REQUIRE(stream);
  if (modelRI) *modelRI = nullptr;
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  // Only the graph of a conditional task is known already.
  if (!modelRI && !(found->capture && found->capture->graph->parent)) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, "argument 'modelRI' is null");
  }
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(Capture::end(found, &graph));
  if (!call.injected().ok()) {
    release_graph(*graph);
    return call.result(call.injected());
  }
  if (modelRI) *modelRI = graph->handle;
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  EMULATOR_CALL(Other, mode);
  EMULATOR_REQUIRE(mode);
  // Programs in C may hold any number there, which an enumeration of C++ may not.
  int wanted = 0;
  std::memcpy(&wanted, mode, sizeof wanted);
  EMULATOR_TRY(check_mode(wanted));
  *mode = std::exchange(ThreadState::current().exchange_mode, static_cast<aclmdlRICaptureMode>(wanted));
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  EMULATOR_CALL(Capture, stream);
  EMULATOR_REQUIRE(stream);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  return call.result(begin_task_group(*found));
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  EMULATOR_CALL_NEEDS(kInitAndEnd, Capture, stream, handle);
  EMULATOR_REQUIRE(stream);
  EMULATOR_REQUIRE(handle);
  *handle = nullptr;
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  EMULATOR_TRY(end_task_group(*found, handle));
  if (!call.injected().ok()) *handle = nullptr;
  return call.result(call.injected());
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  EMULATOR_CALL(Update, stream, handle);
  EMULATOR_REQUIRE(stream);
  EMULATOR_REQUIRE(handle);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  return call.result(begin_task_update(*found, handle));
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  EMULATOR_CALL_NEEDS(kInitAndEnd, Update, stream);
  EMULATOR_REQUIRE(stream);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(find(stream, found));
  if (!call.injected().ok() && found->update) {
    found->update->group->updating = false;
    found->update = nullptr;
    return call.result(call.injected());
  }
  EMULATOR_TRY(end_task_update(*found));
  return call.result(call.injected());
}
