// Devices and contexts.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/capture.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

// Waits for every stream of the context, each with what is left of the limit.
Status synchronize(Runtime& runtime, Lock& lock, std::optional<std::chrono::milliseconds> limit) {
  std::shared_ptr<Context> context;
  if (Status status = runtime.current_context(context); !status.ok()) return status;
  if (Status status = refuse_captures(*context); !status.ok()) return status;
  const auto begin = std::chrono::steady_clock::now();
  Status first;
  // A copy: streams may come and go while the lock is released.
  const auto streams = context->device.contexts;
  for (const std::shared_ptr<Context>& each : streams) {
    const auto of_context = each->streams;
    for (const std::shared_ptr<Stream>& stream : of_context) {
      std::optional<std::chrono::milliseconds> left;
      if (limit) {
        const auto passed =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
        left = std::max(*limit - passed, std::chrono::milliseconds(0));
      }
      Status status = stream->synchronize(lock, left);
      if (!status.ok() && first.ok()) first = std::move(status);
    }
  }
  return first;
}

}  // namespace

aclError aclrtSetDevice(int32_t deviceId) {
  EMULATOR_CALL(Context, deviceId);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(deviceId, &device));
  if (!device->primary) EMULATOR_TRY(runtime.create_context(*device, device->primary));
  ++device->references;
  ThreadState::current().context = device->primary;
  return call.result(ACL_SUCCESS);
}

namespace {

aclError reset(ApiCall& call, int32_t id, bool force) {
  EMULATOR_OUTSIDE_HOST_FUNCTIONS
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(id, &device));
  if (!force && device->references > 1) {
    --device->references;
    return call.result(ACL_SUCCESS);
  }
  Validation::instance().device_reset(device->id);
  const std::shared_ptr<Device> owner = owner_of(*device);
  runtime.reset_device(lock, *device);
  return call.result(ACL_SUCCESS);
}

}  // namespace

aclError aclrtResetDevice(int32_t deviceId) {
  EMULATOR_CALL(Other, deviceId);
  return reset(call, deviceId, /*force=*/false);
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  EMULATOR_CALL(Other, deviceId);
  return reset(call, deviceId, /*force=*/true);
}

aclError aclrtGetDevice(int32_t* deviceId) {
  EMULATOR_CALL(Other, deviceId);
  EMULATOR_REQUIRE(deviceId);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  *deviceId = device->id;
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  EMULATOR_CALL(Other, count);
  EMULATOR_REQUIRE(count);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  *count = runtime.profile().devices;
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  EMULATOR_CALL(Other, runMode);
  EMULATOR_REQUIRE(runMode);
  *runMode = ACL_HOST;
  return call.result(ACL_SUCCESS);
}

aclError aclrtSynchronizeDevice(void) {
  EMULATOR_CALL(Sync);
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  return call.result(synchronize(runtime, lock, std::nullopt));
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  EMULATOR_CALL(Sync, timeout);
  if (timeout < -1 || timeout == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is -1 or positive, not {}", timeout));
  }
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::milliseconds(timeout);
  return call.result(synchronize(runtime, lock, limit));
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  EMULATOR_CALL(Context, context, deviceId);
  EMULATOR_REQUIRE(context);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(deviceId, &device));
  std::shared_ptr<Context> made;
  EMULATOR_TRY(runtime.create_context(*device, made));
  ThreadState::current().context = made;
  *context = made->handle;
  Validation::instance().created(ObjectKind::kContext, made->handle, device->id);
  return call.result(ACL_SUCCESS);
}

namespace {

Status find_context(Runtime& runtime, aclrtContext handle, std::shared_ptr<Context>& context) {
  context = runtime.handles().find<Context>(handle);
  if (context) return {};
  return Status(ACL_ERROR_RT_CONTEXT_NULL, fmt::format("{} is no live context", handle));
}

}  // namespace

aclError aclrtDestroyContext(aclrtContext context) {
  EMULATOR_CALL(Other, context);
  EMULATOR_REQUIRE(context);
  EMULATOR_OUTSIDE_HOST_FUNCTIONS
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Context> found;
  if (Status status = find_context(runtime, context, found); !status.ok()) {
    Validation::instance().destroy_refused(ObjectKind::kContext, context);
    return call.result(status);
  }
  EMULATOR_TRY(refuse_captures(*found));
  if (found == found->device.primary) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, "a device's own context ends with aclrtResetDevice");
  }
  Validation::instance().destroyed(context);
  runtime.destroy_context(lock, found);
  return call.result(ACL_SUCCESS);
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  EMULATOR_CALL(Context, context);
  EMULATOR_REQUIRE(context);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Context> found;
  EMULATOR_TRY(find_context(runtime, context, found));
  ThreadState::current().context = found;
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  EMULATOR_CALL(Other, context);
  EMULATOR_REQUIRE(context);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Context> current;
  EMULATOR_TRY(runtime.current_context(current));
  *context = current->handle;
  return call.result(ACL_SUCCESS);
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  EMULATOR_CALL(Other, stream);
  EMULATOR_REQUIRE(stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Context> current;
  EMULATOR_TRY(runtime.current_context(current));
  if (!current->default_stream) return call.result(ACL_ERROR_RT_CONTEXT_NULL, "the context is being destroyed");
  *stream = current->default_stream->handle;
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  EMULATOR_CALL(Other, deviceId, attr, value);
  EMULATOR_REQUIRE(value);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(static_cast<int32_t>(deviceId), &device));
  const Profile& profile = device->profile;
  switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = profile.aicpu_cores;
      break;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = profile.cube_cores;
      break;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = profile.vector_cores;
      break;
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
      *value = static_cast<int64_t>(profile.ubuf_bytes);
      break;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = static_cast<int64_t>(profile.memory_bytes);
      break;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = static_cast<int64_t>(profile.l2_bytes);
      break;
    case ACL_DEV_ATTR_NPU_ARCH:
      *value = profile.npu_arch;
      break;
    default:
      return call.result(ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{} is no attribute of a device", static_cast<int>(attr)));
  }
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  EMULATOR_CALL(Other, attr, free, total);
  EMULATOR_REQUIRE(free);
  EMULATOR_REQUIRE(total);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  *free = device->memory.available();
  *total = device->memory.capacity();
  return call.result(ACL_SUCCESS);
}
