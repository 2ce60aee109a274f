// How a core comes to its device, and what it finds out about it.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "device/ascend/ascend_core.h"

namespace reprise::device::ascend {
namespace {

std::atomic<uint64_t> cores_made{0};

/// A stream for trying things out, with a word of memory.
class Scratch {
 public:
  explicit Scratch(const AclLibrary& library) : library_(library) {
    if (library_.aclrtCreateStreamWithConfig(&stream_, 0, 0) != ACL_SUCCESS) stream_ = nullptr;
  }
  ~Scratch() {
    if (stream_ != nullptr) library_.aclrtDestroyStream(stream_);
    if (word_ != nullptr) library_.aclrtFree(word_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  aclrtStream stream() const { return stream_; }
  void* word() {
    if (word_ == nullptr && library_.aclrtMalloc(&word_, 64, ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS)
      word_ = nullptr;
    return word_;
  }

 private:
  const AclLibrary& library_;
  aclrtStream stream_ = nullptr;
  void* word_ = nullptr;
};

/// Frameworks and runtimes that follow the variable wait for each launch, which no capture allows.
void warn_of_blocking_launches() {
  const char* blocking = std::getenv("ASCEND_LAUNCH_BLOCKING");
  if (blocking == nullptr || std::string_view(blocking) != "1") return;
  log_warning(
      "ASCEND_LAUNCH_BLOCKING=1 asks for launches that wait for their end, and such cannot be captured; remedy: "
      "unset it, or use the mode force_eager");
}

/// What a call that was only tried has answered, for the reason of a feature that is off.
std::string refusal(const AclLibrary& library, const char* call, int code) {
  return acl_error(library, code, call, "trying it out").message();
}

}  // namespace

AscendCore::AscendCore(const AscendOptions& options)
    : library(AclLibrary::open(options.library)),
      device_id(options.device_id),
      wait_limit_ms(options.wait_limit_ms),
      features(library->features()),
      memory(library),
      identity_(++cores_made) {
  if (wait_limit_ms <= 0) throw Error(ErrorCode::kInvalidArgument, "a wait limit of {} ms", wait_limit_ms);
  open_device();
  try {
    read_cores();
    probe_features();
    look_at_free_memory();
    warn_of_blocking_launches();
  } catch (...) {
    close_device();
    throw;
  }
}

AscendCore::~AscendCore() { close_device(); }

void AscendCore::open_device() {
  uint32_t count = 0;
  const int code = library->aclrtGetDeviceCount(&count);
  if (code != ACL_SUCCESS) {
    throw acl_error_as(ErrorCode::kNotFound, *library, code, "aclrtGetDeviceCount", "looking for devices")
        .remedy("see whether npu-smi info lists a device; or use --device cpu");
  }
  if (count == 0) {
    throw Error(ErrorCode::kNotFound, "AscendCL is installed, but there is no device")
        .remedy("see whether npu-smi info lists one; or use --device cpu");
  }
  if (device_id < 0 || static_cast<uint32_t>(device_id) >= count) {
    throw Error(ErrorCode::kInvalidArgument, "there is no device ascend:{}: the devices are 0 to {}", device_id,
                count - 1);
  }
  check(library->aclrtSetDevice(device_id), "aclrtSetDevice", fmt::format("opening ascend:{}", device_id));
  const int made = library->aclrtCreateContext(&context_, device_id);
  if (made != ACL_SUCCESS) {
    const Error error = acl_error(*library, made, "aclrtCreateContext", fmt::format("opening ascend:{}", device_id));
    library->aclrtResetDevice(device_id);
    throw Error(error);
  }
  // A new context is the calling thread's, but whose it was before is not ours to know.
  try {
    enter();
  } catch (...) {
    library->aclrtDestroyContext(context_);
    library->aclrtResetDevice(device_id);
    throw;
  }
}

void AscendCore::close_device() noexcept {
  try {
    enter();
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
  for (const auto& progress : streams_) {
    if (progress->fence != nullptr) library->aclrtDestroyEvent(progress->fence);
  }
  streams_.clear();
  memory.clear();
  log_acl(*library, library->aclrtDestroyContext(context_), "aclrtDestroyContext", "closing the device");
  log_acl(*library, library->aclrtResetDevice(device_id), "aclrtResetDevice", "closing the device");
}

void AscendCore::read_cores() {
  // What the largest parts of the 910B have: a limit that is too high is refused by the runtime.
  cube_cores = 24;
  vector_cores = 48;
  if (!features.has(Feature::kCoreCount)) return;
  const auto ask = [this](aclrtDevAttr attribute, int& cores) {
    int64_t value = 0;
    const int code = library->aclrtGetDeviceInfo(static_cast<uint32_t>(device_id), attribute, &value);
    if (code == ACL_SUCCESS && value > 0) {
      cores = static_cast<int>(value);
    } else {
      features.turn_off(Feature::kCoreCount, refusal(*library, "aclrtGetDeviceInfo", code));
    }
  };
  ask(ACL_DEV_ATTR_CUBE_CORE_NUM, cube_cores);
  ask(ACL_DEV_ATTR_VECTOR_CORE_NUM, vector_cores);
}

void AscendCore::look_at_free_memory() const {
  size_t free = 0;
  size_t total = 0;
  check(library->aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo", "asking for the free memory");
  // What is left may do: whoever needs more is told by the allocation that fails.
  if (free < total / 2) {
    log_warning("of the {:.1f} GB of ascend:{} only {:.3g} GB are free: another process uses the device",
                static_cast<double>(total) * 1e-9, device_id, static_cast<double>(free) * 1e-9);
  }
}

CaptureRoom AscendCore::capture_room() const {
  const char* soc = library->aclrtGetSocName();
  CaptureRoom room = documented_room(soc == nullptr ? "" : soc);
  uint32_t streams = 0;
  uint32_t events = 0;
  enter();
  if (features.has(Feature::kResourceCount) && library->aclrtGetStreamAvailableNum(&streams) == ACL_SUCCESS &&
      library->aclrtGetEventAvailNum(&events) == ACL_SUCCESS) {
    room.streams = streams;
    room.events = events;
    room.source = "free on the device now";
  }
  room.graphs_hold_streams = graphs_hold_streams;
  room.events_per_external = features.has(Feature::kValueWait) ? 0 : 1;
  return room;
}

/// What the functions are there for, an older driver may still refuse: each is tried once.
void AscendCore::probe_features() {
  Scratch scratch(*library);
  if (scratch.stream() == nullptr) return;  // the default stream will say why
  const auto probe = [&](Feature feature, auto&& attempt) {
    if (!features.has(feature)) return;
    const char* call = "";
    const int code = attempt(call);
    if (code != ACL_SUCCESS) features.turn_off(feature, refusal(*library, call, code));
  };
  aclrtStream stream = scratch.stream();
  probe(Feature::kCoreLimit, [&](const char*& call) {
    call = "aclrtSetStreamResLimit";
    if (const int code = library->aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 1)) return code;
    call = "aclrtResetStreamResLimit";
    return library->aclrtResetStreamResLimit(stream);
  });
  probe(Feature::kValueWait, [&](const char*& call) {
    call = "aclrtMalloc";
    if (scratch.word() == nullptr) return static_cast<int>(ACL_ERROR_RT_MEMORY_ALLOCATION);
    call = "aclrtValueWrite";
    if (const int code = library->aclrtValueWrite(scratch.word(), 1, 0, stream)) return code;
    call = "aclrtValueWait";
    if (const int code = library->aclrtValueWait(scratch.word(), 1, ACL_VALUE_WAIT_EQ, stream)) return code;
    call = "aclrtSynchronizeStreamWithTimeout";
    constexpr int kMilliseconds = 10000;
    return features.has(Feature::kTimedWait) ? library->aclrtSynchronizeStreamWithTimeout(stream, kMilliseconds)
                                             : static_cast<int>(ACL_SUCCESS);
  });
  probe(Feature::kExternalEvent, [&](const char*& call) {
    call = "aclrtCreateEventWithFlag";
    aclrtEvent event = nullptr;
    if (const int code = library->aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL)) return code;
    call = "aclrtDestroyEvent";
    return library->aclrtDestroyEvent(event);
  });
  probe_graphs(stream);
}

void AscendCore::probe_graphs(aclrtStream stream) {
  if (!features.has(Feature::kGraph)) return;
  uint32_t free_before = 0;
  const bool counts =
      features.has(Feature::kResourceCount) && library->aclrtGetStreamAvailableNum(&free_before) == ACL_SUCCESS;
  const char* call = "aclmdlRICaptureBegin";
  int code = library->aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
  if (code == ACL_SUCCESS) {
    if (features.has(Feature::kTaskUpdate)) {
      aclrtTaskGrp group = nullptr;
      const char* group_call = "aclmdlRICaptureTaskGrpBegin";
      int group_code = library->aclmdlRICaptureTaskGrpBegin(stream);
      if (group_code == ACL_SUCCESS) {
        group_call = "aclmdlRICaptureTaskGrpEnd";
        group_code = library->aclmdlRICaptureTaskGrpEnd(stream, &group);
      }
      if (group_code != ACL_SUCCESS) features.turn_off(Feature::kTaskUpdate, refusal(*library, group_call, group_code));
    }
    call = "aclmdlRICaptureEnd";
    aclmdlRI graph = nullptr;
    code = library->aclmdlRICaptureEnd(stream, &graph);
    if (code == ACL_SUCCESS) {
      uint32_t free_now = 0;
      if (counts && library->aclrtGetStreamAvailableNum(&free_now) == ACL_SUCCESS)
        graphs_hold_streams = free_now < free_before;
      call = "aclmdlRIDestroy";
      code = library->aclmdlRIDestroy(graph);
    }
  }
  if (code == ACL_SUCCESS) return;
  features.turn_off(Feature::kGraph, refusal(*library, call, code));
  for (const Feature feature : {Feature::kTaskUpdate, Feature::kGraphDump})
    features.turn_off(feature, "there are no captured graphs");
}

}  // namespace reprise::device::ascend
