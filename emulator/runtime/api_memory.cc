// Memory of devices, pinned memory, copies and fills.
#include <fmt/format.h>

#include "emulator/kernel.h"
#include "emulator/runtime/api_support.h"
#include "emulator/runtime/capture.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/copy_task.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/submit.h"
#include "emulator/runtime/thread_state.h"
#include "emulator/runtime/validation/validation.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

namespace {

// Requests from this size on get huge pages where the policy leaves the choice.
constexpr size_t kHugeFrom = 1 << 20;

Status allocate(void** address, size_t bytes, aclrtMemMallocPolicy policy) {
  if (bytes == 0) return Status(ACL_ERROR_INVALID_PARAM, "no memory of 0 bytes can be had");
  const int pages = static_cast<int>(policy) & 0xff;
  if (pages > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P) {
    return Status(ACL_ERROR_INVALID_PARAM, fmt::format("{:#x} is no policy of memory", static_cast<int>(policy)));
  }
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  Device* device = nullptr;
  if (Status status = runtime.current_device(&device); !status.ok()) return status;
  const bool first = pages == ACL_MEM_MALLOC_HUGE_FIRST || pages == ACL_MEM_MALLOC_HUGE_FIRST_P2P;
  const bool normal = pages == ACL_MEM_MALLOC_NORMAL_ONLY || pages == ACL_MEM_MALLOC_NORMAL_ONLY_P2P;
  Status status = device->memory.allocate(bytes, first ? bytes >= kHugeFrom : !normal, address);
  if (status.ok()) Validation::instance().memory_allocated(*address, bytes, device->id);
  return status;
}

// Frees on whatever device the address is of, which need not be the current one.
Status release(void* address) {
  Status status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no device memory", address));
  for (const std::shared_ptr<Device>& device : Runtime::instance().devices()) {
    if (device->memory.contains(address)) status = device->memory.free(address);
  }
  if (status.ok()) {
    Validation::instance().memory_freed(address);
  } else {
    Validation::instance().destroy_refused(ObjectKind::kDeviceMemory, address);
  }
  return status;
}

Status check_counts(size_t capacity, size_t count) {
  if (count == 0) return Status(ACL_ERROR_RT_PARAM_INVALID, "no bytes to copy or fill");
  if (count > capacity) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("{} bytes do not fit into the {} of the destination", count, capacity));
  }
  return {};
}

Status check_shape(const CopyShape& shape) {
  if (shape.width == 0 || shape.height == 0) return Status(ACL_ERROR_RT_PARAM_INVALID, "a copy of no bytes");
  if (shape.width > shape.destination_pitch || shape.width > shape.source_pitch) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("rows of {} bytes are longer than a pitch ({} and {})",
                                                          shape.width, shape.destination_pitch, shape.source_pitch));
  }
  return {};
}

// A copy in the calling thread. It takes no turn on any stream.
Status copy_now(const CopyShape& shape, aclrtMemcpyKind kind) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Context> context;
  if (Status status = runtime.current_context(context); !status.ok()) return status;
  if (Status status = check_unsafe_call(*context, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT); !status.ok()) return status;
  Device& device = context->device;
  if (!device.error().ok()) return device.error();
  CopySides sides;
  if (Status status = check_copy(shape, kind, device.memory, sides); !status.ok()) return status;
  const size_t bytes = shape.width * shape.height;
  device.statistics.bytes_copied += bytes;
  const Timing& timing = device.profile.timing;
  ThreadState::current().clock += timing.host_call + static_cast<double>(bytes) / timing.copy_bandwidth;
  const std::shared_ptr<Device> owner = owner_of(device);
  lock.unlock();
  return copy_bytes(shape, sides, device.memory);
}

Status copy_later(const CopyShape& shape, aclrtMemcpyKind kind, aclrtStream handle) {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Stream> stream;
  if (Status status = runtime.find_stream(handle, stream); !status.ok()) return status;
  Device& device = stream->device();
  CopySides sides;
  if (Status status = check_copy(shape, kind, device.memory, sides); !status.ok()) return status;
  if (sides.pageable() && (stream->capture || stream->bound)) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  "a graph takes copies of pinned host memory only (aclrtMallocHost), and this is pageable");
  }
  if (sides.pageable()) {
    const Status status = check_unsafe_call(*stream->context.lock(), ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
    if (!status.ok()) return status;
  }
  Status status = submit(*stream, std::make_shared<CopyTask>(shape, sides), device.profile.timing.host_call);
  // The device cannot reach pageable memory by itself: the call waits until the copy is done.
  const bool queued = !stream->update;
  if (status.ok() && sides.pageable() && queued) status = stream->synchronize(lock, std::nullopt);
  return status;
}

}  // namespace

void* emulatorHostAddress(const void* device_address, size_t bytes) {
  for (const std::shared_ptr<Device>& device : Runtime::instance().devices()) {
    if (device->memory.contains(device_address)) return device->memory.host(device_address, bytes);
  }
  return nullptr;
}

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  EMULATOR_CALL(Malloc, devPtr, size, policy);
  EMULATOR_REQUIRE(devPtr);
  return call.result(allocate(devPtr, size, policy));
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  EMULATOR_CALL(Malloc, devPtr, size, policy);
  EMULATOR_REQUIRE(devPtr);
  return call.result(allocate(devPtr, size, policy));
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  EMULATOR_CALL(Malloc, devPtr, size, policy);
  EMULATOR_REQUIRE(devPtr);
  return call.result(allocate(devPtr, size, policy));
}

aclError aclrtFree(void* devPtr) {
  EMULATOR_CALL(Other, devPtr);
  EMULATOR_REQUIRE(devPtr);
  const Lock lock(Runtime::instance().mutex());
  return call.result(release(devPtr));
}

aclError aclrtFreeWithDevSync(void* devPtr) {
  EMULATOR_CALL(Other, devPtr);
  EMULATOR_REQUIRE(devPtr);
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Context> context;
  EMULATOR_TRY(runtime.current_context(context));
  EMULATOR_TRY(refuse_captures(*context));
  const auto streams = context->streams;
  for (const std::shared_ptr<Stream>& stream : streams) EMULATOR_TRY(stream->synchronize(lock, std::nullopt));
  return call.result(release(devPtr));
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  EMULATOR_CALL(Malloc, hostPtr, size);
  EMULATOR_REQUIRE(hostPtr);
  if (size == 0) return call.result(ACL_ERROR_INVALID_PARAM, "no memory of 0 bytes can be had");
  Status status = Runtime::instance().pinned().allocate(size, hostPtr);
  if (status.ok()) Validation::instance().host_allocated(*hostPtr, size);
  return call.result(status);
}

aclError aclrtFreeHost(void* hostPtr) {
  EMULATOR_CALL(Other, hostPtr);
  EMULATOR_REQUIRE(hostPtr);
  // Told before: what is freed can be given to another thread at once.
  Validation::instance().host_freed(hostPtr);
  return call.result(Runtime::instance().pinned().free(hostPtr));
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  EMULATOR_CALL(Copy, dst, destMax, src, count, kind);
  EMULATOR_REQUIRE(dst);
  EMULATOR_REQUIRE(src);
  EMULATOR_TRY(check_counts(destMax, count));
  return call.result(copy_now({.destination = dst, .source = src, .width = count}, kind));
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  EMULATOR_CALL(Copy, dst, destMax, src, count, kind, stream);
  EMULATOR_REQUIRE(dst);
  EMULATOR_REQUIRE(src);
  EMULATOR_TRY(check_counts(destMax, count));
  return call.result(copy_later({.destination = dst, .source = src, .width = count}, kind, stream));
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  EMULATOR_CALL(Copy, dst, dpitch, src, spitch, width, height, kind);
  EMULATOR_REQUIRE(dst);
  EMULATOR_REQUIRE(src);
  const CopyShape shape{dst, dpitch, src, spitch, width, height};
  EMULATOR_TRY(check_shape(shape));
  return call.result(copy_now(shape, kind));
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
  EMULATOR_CALL(Copy, dst, dpitch, src, spitch, width, height, kind, stream);
  EMULATOR_REQUIRE(dst);
  EMULATOR_REQUIRE(src);
  const CopyShape shape{dst, dpitch, src, spitch, width, height};
  EMULATOR_TRY(check_shape(shape));
  return call.result(copy_later(shape, kind, stream));
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  EMULATOR_CALL(Copy, devPtr, maxCount, value, count);
  EMULATOR_REQUIRE(devPtr);
  EMULATOR_TRY(check_counts(maxCount, count));
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  std::shared_ptr<Context> context;
  EMULATOR_TRY(runtime.current_context(context));
  EMULATOR_TRY(check_unsafe_call(*context, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT));
  Device& device = context->device;
  EMULATOR_TRY(device.error());
  EMULATOR_TRY(check_fill(devPtr, count, device.memory));
  const std::shared_ptr<Device> owner = owner_of(device);
  lock.unlock();
  return call.result(fill_bytes(devPtr, value, count, device.memory));
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  EMULATOR_CALL(Copy, devPtr, maxCount, value, count, stream);
  EMULATOR_REQUIRE(devPtr);
  EMULATOR_TRY(check_counts(maxCount, count));
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  EMULATOR_TRY(check_fill(devPtr, count, found->device().memory));
  return call.result(
      submit(*found, std::make_shared<FillTask>(devPtr, value, count), found->device().profile.timing.host_call));
}
