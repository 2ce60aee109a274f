// Kernels and host functions.
#include <fmt/format.h>
#include <pthread.h>

#include "emulator/runtime/api_support.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/host_task.h"
#include "emulator/runtime/kernel_task.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/submit.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

Status launch(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t bytes, aclrtStream handle) {
  const Kernel* kernel = nullptr;
  if (Status status = find_kernel(function, &kernel); !status.ok()) return status;
  if (blocks == 0)
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("kernel {}: a grid of 0 blocks", kernel->name));
  if (Status status = check_arguments(*kernel, arguments, bytes); !status.ok()) return status;
  // Copied outside of the lock, as most of the work of a launch.
  TaskPointer task = std::make_shared<KernelTask>(kernel, blocks, arguments, bytes);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) return status;
  Device& device = stream->device();
  Status status = submit(*stream, std::move(task), device.profile.timing.host_launch);
  if (status.ok()) ++device.statistics.launches;
  return status;
}

}  // namespace

aclError aclrtLaunchKernel(aclrtFuncHandle func, uint32_t numBlocks, const void* args, size_t argsSize,
                           aclrtStream stream) {
  EMULATOR_CALL(Launch, func, numBlocks, args, argsSize, stream);
  EMULATOR_REQUIRE(func);
  if (argsSize > 0) EMULATOR_REQUIRE(args);
  return call.result(launch(func, numBlocks, args, argsSize, stream));
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle func, uint32_t numBlocks, const void* args, size_t argsSize,
                             aclrtLaunchKernelCfg* cfg, aclrtStream stream) {
  EMULATOR_CALL(Launch, func, numBlocks, args, argsSize, cfg, stream);
  EMULATOR_REQUIRE(func);
  if (argsSize > 0) EMULATOR_REQUIRE(args);
  if (cfg && cfg->numAttrs > 0) EMULATOR_REQUIRE(cfg->attrs);
  return call.result(launch(func, numBlocks, args, argsSize, stream));
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc func, void* args) {
  EMULATOR_CALL(Launch, stream, args);
  EMULATOR_REQUIRE(func);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  return call.result(
      submit(*target, std::make_shared<HostFunctionTask>(func, args), target->device().profile.timing.host_call));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
  EMULATOR_CALL(Launch, userData, blockType, stream);
  EMULATOR_REQUIRE(fn);
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no way to block", static_cast<int>(blockType)));
  }
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  if (target->report_thread == 0) {
    return call.result(ACL_ERROR_RT_STREAM_NO_CB_REG,
                       fmt::format("no thread subscribed to the callbacks of stream {}", target->id));
  }
  return call.result(submit(
      *target, std::make_shared<CallbackTask>(fn, userData, blockType == ACL_CALLBACK_BLOCK, target->report_thread),
      target->device().profile.timing.host_call));
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  EMULATOR_CALL(Other, threadId, stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  if (target->report_thread != 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("stream {} has a subscriber already", target->id));
  }
  target->report_thread = threadId;
  return call.result(ACL_SUCCESS);
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  EMULATOR_CALL(Other, threadId, stream);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> target;
  EMULATOR_TRY(runtime.find_stream(stream, target));
  if (target->report_thread == 0 || target->report_thread != threadId) {
    return call.result(ACL_ERROR_RT_STREAM_NO_CB_REG,
                       fmt::format("thread {} is no subscriber of stream {}", threadId, target->id));
  }
  target->report_thread = 0;
  return call.result(ACL_SUCCESS);
}

aclError aclrtProcessReport(int32_t timeout) {
  EMULATOR_CALL(Other, timeout);
  if (timeout < -1 || timeout == 0) {
    return call.result(ACL_ERROR_RT_PARAM_INVALID, fmt::format("a time-out is -1 or positive, not {}", timeout));
  }
  std::optional<std::chrono::milliseconds> limit;
  if (timeout > 0) limit = std::chrono::milliseconds(timeout);
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  const auto report = runtime.reports().pop(lock, static_cast<uint64_t>(pthread_self()), limit);
  if (!report) return call.result(ACL_ERROR_RT_WAIT_TIMEOUT, fmt::format("no callback came within {} ms", timeout));
  lock.unlock();
  report->function(report->data);
  lock.lock();
  report->done = true;
  runtime.progress().notify_all();
  return call.result(ACL_SUCCESS);
}

aclError aclrtCacheLastTaskOpInfo(const void* infoPtr, size_t infoSize) {
  EMULATOR_CALL(Other, infoPtr, infoSize);
  EMULATOR_REQUIRE(infoPtr);
  // Profilers read it; there is none here.
  return call.result(ACL_SUCCESS);
}
