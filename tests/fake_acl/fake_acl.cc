// An AscendCL as an old CANN has it: no captured graphs, no waits with limits, no waits for words of memory, no core
// limits. Everything runs at once, in host memory. What goes wrong is set by fakeAclSet().
#include <cstdlib>
#include <cstring>
#include <string>

#include "device/ascend/interface/acl_runtime.h"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

struct State {
  int initialised = 0;
  long devices = 2;
  int set_device_code = ACL_SUCCESS;
  int stream_code = ACL_SUCCESS;
  int query_code = ACL_SUCCESS;
  bool busy = false;  ///< streams and events are never ready
  size_t total = size_t{1} << 30;
  size_t free = size_t{1} << 30;
  int malloc_failures = 0;  ///< the next so many allocations fail
  const char* message = nullptr;
};
State state;

struct FakeEvent {
  bool recorded = false;
};

}  // namespace

FAKE void fakeAclReset() {
  const int initialised = state.initialised;
  state = State();
  state.initialised = initialised;
}
FAKE void fakeAclSet(const char* name, long value) {
  const std::string what = name;
  if (what == "devices") state.devices = value;
  if (what == "set_device") state.set_device_code = static_cast<int>(value);
  if (what == "stream") state.stream_code = static_cast<int>(value);
  if (what == "query") state.query_code = static_cast<int>(value);
  if (what == "busy") state.busy = value != 0;
  if (what == "free") state.free = static_cast<size_t>(value);
  if (what == "malloc_failures") state.malloc_failures = static_cast<int>(value);
  if (what == "message") state.message = value != 0 ? "EL0004: Failed to\n\t allocate memory.\n" : nullptr;
}
FAKE int fakeAclInitialised() { return state.initialised; }

FAKE aclError aclInit(const char*) {
  if (state.initialised > 0) return ACL_ERROR_REPEAT_INITIALIZE;
  ++state.initialised;
  return ACL_SUCCESS;
}
FAKE aclError aclFinalize() {
  --state.initialised;
  return ACL_SUCCESS;
}
FAKE aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  *major = 1;
  *minor = 8;
  *patch = 2;
  return ACL_SUCCESS;
}
FAKE const char* aclrtGetSocName() { return "Ascend910B4"; }
FAKE const char* aclGetRecentErrMsg() { return state.message; }

FAKE aclError aclrtSetDevice(int32_t) { return state.set_device_code; }
FAKE aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }
FAKE aclError aclrtGetDeviceCount(uint32_t* count) {
  if (state.devices < 0) return ACL_ERROR_RT_INTERNAL_ERROR;
  *count = static_cast<uint32_t>(state.devices);
  return ACL_SUCCESS;
}
FAKE aclError aclrtCreateContext(aclrtContext* context, int32_t) {
  *context = &state;
  return ACL_SUCCESS;
}
FAKE aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
FAKE aclError aclrtSetCurrentContext(aclrtContext) { return ACL_SUCCESS; }
FAKE aclError aclrtSynchronizeDevice() { return ACL_SUCCESS; }
FAKE aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  *free = state.free;
  *total = state.total;
  return ACL_SUCCESS;
}

namespace {
aclError allocate(void** memory, size_t size) {
  if (state.malloc_failures > 0) {
    --state.malloc_failures;
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  if (size > state.free) return ACL_ERROR_RT_MEMORY_ALLOCATION;
  *memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
  return ACL_SUCCESS;
}
}  // namespace
FAKE aclError aclrtMalloc(void** memory, size_t size, aclrtMemMallocPolicy) { return allocate(memory, size); }
FAKE aclError aclrtFree(void* memory) {
  std::free(memory);
  return ACL_SUCCESS;
}
FAKE aclError aclrtMallocHost(void** memory, size_t size) { return allocate(memory, size); }
FAKE aclError aclrtFreeHost(void* memory) {
  std::free(memory);
  return ACL_SUCCESS;
}
FAKE aclError aclrtMemcpy(void* to, size_t, const void* from, size_t count, aclrtMemcpyKind) {
  std::memmove(to, from, count);
  return ACL_SUCCESS;
}
FAKE aclError aclrtMemcpyAsync(void* to, size_t, const void* from, size_t count, aclrtMemcpyKind, aclrtStream) {
  std::memmove(to, from, count);
  return ACL_SUCCESS;
}
FAKE aclError aclrtMemset(void* to, size_t, int32_t value, size_t count) {
  std::memset(to, value, count);
  return ACL_SUCCESS;
}
FAKE aclError aclrtMemsetAsync(void* to, size_t, int32_t value, size_t count, aclrtStream) {
  std::memset(to, value, count);
  return ACL_SUCCESS;
}

FAKE aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  if (state.stream_code != ACL_SUCCESS) return state.stream_code;
  *stream = new int(0);
  return ACL_SUCCESS;
}
FAKE aclError aclrtDestroyStream(aclrtStream stream) {
  delete static_cast<int*>(stream);
  return ACL_SUCCESS;
}
FAKE aclError aclrtStreamQuery(aclrtStream, aclrtStreamStatus* status) {
  *status = state.busy ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
  return state.query_code;
}
FAKE aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) {
  *event = new FakeEvent();
  return ACL_SUCCESS;
}
FAKE aclError aclrtDestroyEvent(aclrtEvent event) {
  delete static_cast<FakeEvent*>(event);
  return ACL_SUCCESS;
}
FAKE aclError aclrtRecordEvent(aclrtEvent event, aclrtStream) {
  static_cast<FakeEvent*>(event)->recorded = true;
  return ACL_SUCCESS;
}
FAKE aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return ACL_SUCCESS; }
FAKE aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  *status = static_cast<FakeEvent*>(event)->recorded && !state.busy ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                                    : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
FAKE aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent, aclrtEvent) {
  *milliseconds = 0;
  return ACL_SUCCESS;
}
