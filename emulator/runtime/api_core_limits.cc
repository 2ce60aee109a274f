// How many cores a device, a stream or a thread may use.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/thread_state.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

Status check_type(aclrtDevResLimitType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no kind of core", static_cast<int>(type)));
}

Status check_cores(const Device& device, aclrtDevResLimitType type, uint32_t cores) {
  if (Status status = check_type(type); !status.ok()) return status;
  if (cores > 0 && cores <= device.cores(type)) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} {} cores: device {} has {}", cores,
                            type == ACL_RT_DEV_RES_CUBE_CORE ? "cube" : "vector", device.id, device.cores(type)));
}

// The device's own limit, else what the chip has.
uint32_t of_device(const Device& device, aclrtDevResLimitType type) {
  const uint32_t limit = device.core_limit(type);
  return limit > 0 ? limit : device.cores(type);
}

uint32_t of_stream(const Stream& stream, aclrtDevResLimitType type) {
  const uint32_t limit = stream.core_limits[type];
  return limit > 0 ? limit : of_device(stream.device(), type);
}

}  // namespace

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  EMULATOR_CALL(Other, deviceId, type, value);
  EMULATOR_REQUIRE(value);
  EMULATOR_TRY(check_type(type));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(deviceId, &device));
  *value = of_device(*device, type);
  return call.result(ACL_SUCCESS);
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  EMULATOR_CALL(Other, deviceId, type, value);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(deviceId, &device));
  EMULATOR_TRY(check_cores(*device, type, value));
  device->set_core_limit(type, value);
  return call.result(ACL_SUCCESS);
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  EMULATOR_CALL(Other, deviceId);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.open_device(deviceId, &device));
  device->set_core_limit(ACL_RT_DEV_RES_CUBE_CORE, 0);
  device->set_core_limit(ACL_RT_DEV_RES_VECTOR_CORE, 0);
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  EMULATOR_CALL(Other, stream, type, value);
  EMULATOR_REQUIRE(value);
  EMULATOR_TRY(check_type(type));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  *value = of_stream(*found, type);
  return call.result(ACL_SUCCESS);
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  EMULATOR_CALL(Other, stream, type, value);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  EMULATOR_TRY(check_cores(found->device(), type, value));
  found->core_limits[type] = value;
  return call.result(ACL_SUCCESS);
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  found->core_limits[0] = found->core_limits[1] = 0;
  return call.result(ACL_SUCCESS);
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  ThreadState::current().limits_of = found;
  return call.result(ACL_SUCCESS);
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  EMULATOR_CALL(Other, stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  ThreadState::current().limits_of.reset();
  return call.result(ACL_SUCCESS);
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  EMULATOR_CALL(Other, type, value);
  EMULATOR_REQUIRE(value);
  EMULATOR_TRY(check_type(type));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  const std::shared_ptr<Stream> stream = ThreadState::current().limits_of.lock();
  *value = stream ? of_stream(*stream, type) : of_device(*device, type);
  return call.result(ACL_SUCCESS);
}
