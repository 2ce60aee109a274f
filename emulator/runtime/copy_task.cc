#include "emulator/runtime/copy_task.h"

#include <fmt/format.h>

#include <cstring>

#include "emulator/runtime/device.h"
#include "emulator/runtime/host_access.h"
#include "emulator/runtime/replay.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {
namespace {

Status wrong_side(const char* side, const void* address, const char* where) {
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("the {} {} of a copy is not {}", side, address, where));
}

// What `kind` says about one side.
Status check_side(const char* side, const void* address, size_t bytes, bool on_device, DeviceMemory& memory) {
  if (on_device) {
    if (!memory.live(address, bytes)) return wrong_side(side, address, "inside live device memory");
  } else if (memory.contains(address)) {
    return wrong_side(side, address, "host memory");
  }
  return {};
}

Status gone(const void* address, const char* memory = "live device memory") {
  return Status(ACL_ERROR_RT_AICORE_EXCEPTION,
                fmt::format("a copy reached {}, which is no longer inside {}", address, memory));
}

Status absent_host(const char* what, const void* address, size_t bytes) {
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("a copy {} {} bytes at {}, which are not all memory of the host", what, bytes, address));
}

// Pinned memory that a copy was submitted with stays where it is while the copy holds it.
Status hold_pinned(const void* address, size_t bytes, PinnedMemory::Hold& hold) {
  hold = Runtime::instance().pinned().hold(address, bytes);
  return hold ? Status() : gone(address, "live pinned memory");
}

// What the host does for the device with its pageable memory cannot break the device.
Status on_device(TaskContext& context, Status status) {
  if (!status.ok() && status.code != ACL_ERROR_RT_PARAM_INVALID) {
    const Lock lock(Runtime::instance().mutex());
    context.device.fail(status);
  }
  return status;
}

}  // namespace

Status check_copy(const CopyShape& shape, aclrtMemcpyKind kind, DeviceMemory& memory, CopySides& sides) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      break;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      sides.destination_on_device = true;
      break;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      sides.source_on_device = true;
      break;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      sides.source_on_device = sides.destination_on_device = true;
      break;
    case ACL_MEMCPY_DEFAULT:
      sides.source_on_device = memory.contains(shape.source);
      sides.destination_on_device = memory.contains(shape.destination);
      break;
    default:
      return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no kind of copy", static_cast<int>(kind)));
  }
  Status status =
      check_side("destination", shape.destination, shape.destination_bytes(), sides.destination_on_device, memory);
  if (status.ok()) status = check_side("source", shape.source, shape.source_bytes(), sides.source_on_device, memory);
  const PinnedMemory& pinned = Runtime::instance().pinned();
  sides.source_pinned = !sides.source_on_device && pinned.contains(shape.source, shape.source_bytes());
  sides.destination_pinned =
      !sides.destination_on_device && pinned.contains(shape.destination, shape.destination_bytes());
  return status;
}

Status check_fill(const void* address, size_t bytes, DeviceMemory& memory) {
  if (memory.live(address, bytes)) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} bytes at {} are not inside live device memory", bytes, address));
}

Status copy_bytes(const CopyShape& shape, const CopySides& sides, DeviceMemory& memory) {
  if (sides.source_on_device && !memory.live(shape.source, shape.source_bytes())) return gone(shape.source);
  if (sides.destination_on_device && !memory.live(shape.destination, shape.destination_bytes())) {
    return gone(shape.destination);
  }
  PinnedMemory::Hold from;
  PinnedMemory::Hold to;
  if (sides.source_pinned) {
    if (Status status = hold_pinned(shape.source, shape.source_bytes(), from); !status.ok()) return status;
  }
  if (sides.destination_pinned) {
    if (Status status = hold_pinned(shape.destination, shape.destination_bytes(), to); !status.ok()) return status;
  }
  if (sides.destination_on_device) {
    Validation::instance().words_overwritten(shape.destination, shape.destination_bytes());
  }
  const bool absent = !memory.executes();
  if (absent && sides.destination_on_device) {
    memory.forget_words(shape.destination, shape.destination_bytes());
    return {};
  }
  auto* destination = static_cast<char*>(
      sides.destination_on_device ? memory.host(shape.destination, shape.destination_bytes()) : shape.destination);
  const auto* source =
      static_cast<const char*>(sides.source_on_device ? memory.host(shape.source, shape.source_bytes()) : shape.source);
  // Memory that is address space only reads as zeros, so that what the host decides by it is the same every time.
  if (absent && sides.source_on_device) source = nullptr;
  for (size_t row = 0; row < shape.height; ++row, destination += shape.destination_pitch) {
    if (source && !sides.source_on_device && !from && !host_readable(source, shape.width)) {
      return absent_host("reads", source, shape.width);
    }
    if (!sides.destination_on_device && !to && !host_writable(destination, source, shape.width)) {
      return absent_host("writes", destination, shape.width);
    }
    if (!source) {
      std::memset(destination, 0, shape.width);
      continue;
    }
    std::memmove(destination, source, shape.width);
    source += shape.source_pitch;
  }
  return {};
}

Status fill_bytes(void* address, int32_t value, size_t bytes, DeviceMemory& memory) {
  if (!memory.live(address, bytes)) return gone(address);
  Validation::instance().words_overwritten(address, bytes);
  if (memory.executes()) {
    std::memset(memory.host(address, bytes), value, bytes);
  } else {
    memory.forget_words(address, bytes);
  }
  return {};
}

Status CopyTask::run(TaskContext& context) const {
  Validation& validation = Validation::instance();
  const ReplayNotes* replay = context.replay ? context.replay->notes() : nullptr;
  validation.copy_runs(*this, replay, /*over=*/false);
  Status status = on_device(context, copy_bytes(shape, sides, context.device.memory));
  validation.copy_runs(*this, replay, /*over=*/true);
  if (!sides.destination_on_device) validation.host_written(shape.destination, shape.destination_bytes());
  return status;
}

void CopyTask::list_memory(std::vector<MemoryUse>& uses) const {
  if (sides.source_on_device || sides.source_pinned) uses.push_back({shape.source, shape.source_bytes(), false});
  if (sides.destination_on_device || sides.destination_pinned) {
    uses.push_back({shape.destination, shape.destination_bytes(), true});
  }
}

HostRange CopyTask::host_source() const {
  if (!sides.source_pinned) return {};
  return {shape.source, shape.source_bytes()};
}

HostRange CopyTask::host_destination() const {
  if (!sides.destination_pinned) return {};
  return {shape.destination, shape.destination_bytes()};
}

double CopyTask::account(const Profile& profile, bool /*in_graph*/, DeviceStatistics& statistics) const {
  const auto bytes = static_cast<double>(shape.width) * static_cast<double>(shape.height);
  ++statistics.other_tasks;
  statistics.bytes_copied += shape.width * shape.height;
  const bool inside = sides.source_on_device && sides.destination_on_device;
  // Inside the device the memory is read and written.
  return profile.timing.task +
         (inside ? 2 * bytes / profile.timing.memory_bandwidth : bytes / profile.timing.copy_bandwidth);
}

std::string CopyTask::describe() const {
  return fmt::format("copy {} bytes from {} to {}", shape.width * shape.height, shape.source, shape.destination);
}

Status FillTask::run(TaskContext& context) const {
  return on_device(context, fill_bytes(address, value, bytes, context.device.memory));
}

double FillTask::account(const Profile& profile, bool /*in_graph*/, DeviceStatistics& statistics) const {
  ++statistics.other_tasks;
  statistics.bytes_copied += bytes;
  return profile.timing.task + static_cast<double>(bytes) / profile.timing.memory_bandwidth;
}

void FillTask::list_memory(std::vector<MemoryUse>& uses) const { uses.push_back({address, bytes, true}); }

std::string FillTask::describe() const { return fmt::format("fill {} bytes at {}", bytes, address); }

}  // namespace reprise::emulator
