// Streams.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/capture.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kStreamFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT |
                                  ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
constexpr uint32_t kLowestPriority = 7;

Status create(aclrtStream* handle, uint32_t priority, uint32_t flags) {
  if ((flags & ~kStreamFlags) != 0) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{:#x} are no flags of a stream", flags));
  }
  if (priority > kLowestPriority) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("{} is no priority of a stream (0 to {})", priority, kLowestPriority));
  }
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Context> context;
  if (Status status = runtime.current_context(context); !status.ok()) return status;
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.create_stream(*context, flags, priority, stream); !status.ok()) return status;
  *handle = stream->handle;
  Validation::instance().created(ObjectKind::kStream, stream->handle, stream->device().id);
  return {};
}

// A stream ends behind the host function that it runs.
Status refuse_in_host_function(const Stream& stream) {
  if (ThreadState::current().host_function_of != &stream) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("a host function of stream {} would wait for itself", stream.id));
}

Status destroy(aclrtStream handle, bool force) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) {
    Validation::instance().destroy_refused(ObjectKind::kStream, handle);
    return status;
  }
  if (Status status = refuse_capturing(*stream); !status.ok()) return status;
  if (stream->is_default()) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, "a context's default stream ends with the context");
  }
  if (stream->bound) {
    return Status(ACL_ERROR_RT_STREAM_MODEL, fmt::format("stream {} belongs to a graph", stream->id));
  }
  if (Status status = refuse_in_host_function(*stream); !status.ok()) return status;
  // What was submitted still runs, unless it is forced; a failure of it is not one of this call.
  if (force) {
    stream->abort(lock, /*report=*/false);
  } else {
    (void)stream->synchronize(lock, std::nullopt);
  }
  // Another thread may have destroyed it meanwhile.
  if (!runtime.handles().find<Stream>(handle)) {
    return Status(ACL_ERROR_RT_INVALID_HANDLE, fmt::format("another thread destroyed stream {}", stream->id));
  }
  Validation::instance().destroyed(handle);
  runtime.destroy_stream(lock, stream);
  return {};
}

Status synchronize(aclrtStream handle, std::optional<std::chrono::milliseconds> limit) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) return status;
  if (Status status = refuse_capturing(*stream); !status.ok()) return status;
  return stream->synchronize(lock, limit);
}

Status abort(aclrtStream handle) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) return status;
  if (Status status = refuse_capturing(*stream); !status.ok()) return status;
  if (Status status = refuse_in_host_function(*stream); !status.ok()) return status;
  stream->abort(lock, /*report=*/true);
  return {};
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) {
  EMULATOR_CALL(Stream, stream);
  EMULATOR_REQUIRE(stream);
  return call.result(create(stream, 0, 0));
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  EMULATOR_CALL(Stream, stream, priority, flag);
  EMULATOR_REQUIRE(stream);
  return call.result(create(stream, priority, flag));
}

aclError aclrtCreateStreamV2(aclrtStream* stream, const aclrtStreamConfigHandle* handle) {
  EMULATOR_CALL(Stream, stream, handle);
  EMULATOR_REQUIRE(stream);
  EMULATOR_REQUIRE(handle);
  return call.result(create(stream, handle->priority, static_cast<uint32_t>(handle->flag)));
}

aclError aclrtDestroyStream(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  EMULATOR_REQUIRE(stream);
  return call.result(destroy(stream, /*force=*/false));
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  EMULATOR_REQUIRE(stream);
  return call.result(destroy(stream, /*force=*/true));
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  EMULATOR_CALL(Sync, stream);
  return call.result(synchronize(stream, std::nullopt));
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  EMULATOR_CALL(Sync, stream, timeout);
  if (timeout < -1 || timeout == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is -1 or positive, not {}", timeout));
  }
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::milliseconds(timeout);
  return call.result(synchronize(stream, limit));
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  EMULATOR_CALL(Other, stream, status);
  EMULATOR_REQUIRE(status);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  EMULATOR_TRY(refuse_capturing(*found));
  *status = found->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  if (found->idle()) Validation::instance().host_saw(found->line());
  return call.result(found->idle() ? found->take_error() : Status());
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  EMULATOR_CALL(Other, stream, streamId);
  EMULATOR_REQUIRE(streamId);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  *streamId = found->id;
  return call.result(ACL_SUCCESS);
}

aclError aclrtStreamAbort(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  EMULATOR_REQUIRE(stream);
  return call.result(abort(stream));
}

aclError aclrtStreamStop(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  EMULATOR_REQUIRE(stream);
  return call.result(abort(stream));
}

aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  EMULATOR_CALL(Other, streamCount);
  EMULATOR_REQUIRE(streamCount);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  *streamCount = device->streams.available();
  return call.result(ACL_SUCCESS);
}

namespace {

Status check_attribute(aclrtStreamAttr attribute) {
  if (attribute >= ACL_STREAM_ATTR_FAILURE_MODE && attribute <= ACL_STREAM_ATTR_PRIORITY) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no attribute of a stream", static_cast<int>(attribute)));
}

Status set_attribute(aclrtStream handle, aclrtStreamAttr attribute, const aclrtStreamAttrValue& value) {
  if (Status status = check_attribute(attribute); !status.ok()) return status;
  if (attribute == ACL_STREAM_ATTR_FAILURE_MODE && value.failureMode > ACL_STOP_ON_FAILURE) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no failure mode", value.failureMode));
  }
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) return status;
  // Switching the cache of operators' names on and off around a capture is what torch_npu does.
  if (attribute != ACL_STREAM_ATTR_CACHE_OP_INFO) {
    if (Status status = refuse_capturing(*stream); !status.ok()) return status;
  }
  stream->attributes[attribute] = value;
  return {};
}

}  // namespace

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr, aclrtStreamAttrValue* value) {
  EMULATOR_CALL(Other, stream, attr, value);
  EMULATOR_REQUIRE(value);
  return call.result(set_attribute(stream, attr, *value));
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr attr, aclrtStreamAttrValue* value) {
  EMULATOR_CALL(Other, stream, attr, value);
  EMULATOR_REQUIRE(value);
  EMULATOR_TRY(check_attribute(attr));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  *value = found->attributes[attr];
  return call.result(ACL_SUCCESS);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  EMULATOR_CALL(Other, stream, mode);
  aclrtStreamAttrValue value = {};
  value.failureMode = mode;
  return call.result(set_attribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, value));
}
