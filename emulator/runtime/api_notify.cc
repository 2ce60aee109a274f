// Notifies, and words that streams write and wait for.
#include <fmt/format.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/notify.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/submit.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

Status find_notify(aclrtNotify handle, std::shared_ptr<Notify>& notify) {
  notify = Runtime::instance().handles().find<Notify>(handle);
  if (notify) return {};
  return Status(ACL_ERROR_RT_INVALID_HANDLE, fmt::format("{} is no notify", handle));
}

Status submit_call(Stream& stream, TaskPointer task) {
  return submit(stream, std::move(task), stream.device().profile.timing.host_call);
}

// What writing and awaiting a word have in common.
Status check_word(Device& device, const void* address) {
  if (!device.profile.features.value_wait) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the driver of this device cannot write or await values");
  }
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t) != 0) {
    return Status(ACL_ERROR_RT_ADDR_UNALIGNED, fmt::format("{} is not aligned to 8 bytes", address));
  }
  if (!device.memory.live(address, sizeof(uint64_t))) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is not in live device memory", address));
  }
  return {};
}

}  // namespace

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  EMULATOR_CALL(Event, notify, flag);
  EMULATOR_REQUIRE(notify);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  EMULATOR_TRY(runtime.current_device(&device));
  if (!device->notifies.take()) {
    return call.result(ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                       fmt::format("all {} notifies of device {} are taken", device->notifies.limit(), device->id));
  }
  auto made = std::make_shared<Notify>(*device);
  made->handle = runtime.handles().add(made);
  *notify = made->handle;
  Validation::instance().created(ObjectKind::kNotify, made->handle, device->id);
  return call.result(ACL_SUCCESS);
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  EMULATOR_CALL(Other, notify);
  EMULATOR_REQUIRE(notify);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Notify> found;
  if (Status status = find_notify(notify, found); !status.ok()) {
    Validation::instance().destroy_refused(ObjectKind::kNotify, notify);
    return call.result(status);
  }
  Validation::instance().destroyed(notify);
  runtime.handles().remove(notify);
  found->device.notifies.give_back();
  return call.result(ACL_SUCCESS);
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  EMULATOR_CALL(Event, notify, stream);
  EMULATOR_REQUIRE(notify);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  std::shared_ptr<Notify> found;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  EMULATOR_TRY(find_notify(notify, found));
  return call.result(submit_call(*target, std::make_shared<NotifyRecordTask>(found)));
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  EMULATOR_CALL(Event, notify, stream, timeout);
  EMULATOR_REQUIRE(notify);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  std::shared_ptr<Notify> found;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  EMULATOR_TRY(find_notify(notify, found));
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::seconds(timeout);
  return call.result(submit_call(*target, std::make_shared<NotifyWaitTask>(found, limit)));
}

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  EMULATOR_CALL(Event, devAddr, value, flag, stream);
  EMULATOR_REQUIRE(devAddr);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  EMULATOR_TRY(check_word(target->device(), devAddr));
  if (flag != 0) return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no flag of a value write", flag));
  return call.result(submit_call(*target, std::make_shared<ValueWriteTask>(devAddr, value)));
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  EMULATOR_CALL(Event, devAddr, value, flag, stream);
  EMULATOR_REQUIRE(devAddr);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  EMULATOR_TRY(check_word(target->device(), devAddr));
  if (flag > ACL_VALUE_WAIT_NOR) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no comparison of a value wait", flag));
  }
  return call.result(submit_call(*target, std::make_shared<ValueWaitTask>(devAddr, value, flag)));
}
