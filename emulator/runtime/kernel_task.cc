#include "emulator/runtime/kernel_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/runtime/device.h"
#include "emulator/runtime/fault.h"
#include "emulator/runtime/host_access.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"

namespace reprise::emulator {
namespace {

Status device_error(Device& device, aclError code, std::string text) {
  const Lock lock(Runtime::instance().mutex());
  Status status(code, std::move(text));
  device.fail(status);
  return status;
}

// An injected fault: an error at once, or a kernel that ends only with its stream or its time limit.
Status meet(const KernelFault& fault, const char* name, TaskContext& context) {
  if (fault.kind == KernelFault::Kind::kError) {
    return device_error(context.device, fault.code, fmt::format("kernel {}: injected device error", name));
  }
  const std::chrono::milliseconds limit(context.device.profile.kernel_timeout_ms);
  Lock lock(Runtime::instance().mutex());
  if (context.wait(lock, [] { return false; }, limit) == TaskContext::Wait::kAborted) {
    return Status(ACL_ERROR_RT_STREAM_ABORT, fmt::format("kernel {} was aborted", name));
  }
  lock.unlock();
  return device_error(context.device, ACL_ERROR_RT_AICORE_TIMEOUT,
                      fmt::format("kernel {} did not end within {} ms", name, limit.count()));
}

}  // namespace

KernelTask::KernelTask(const Kernel* kernel, uint32_t blocks, const void* arguments, size_t bytes)
    : kernel_(kernel), blocks_(blocks), arguments_(bytes) {
  if (bytes > 0) std::memcpy(arguments_.data(), arguments, bytes);
  if (kernel_->cost) cost_ = kernel_->cost(arguments_.data(), bytes);
}

Status KernelTask::run(TaskContext& context) const {
  if (const std::optional<KernelFault> fault = FaultPlan::instance().on_kernel()) {
    return meet(*fault, kernel_->name, context);
  }
  if (!context.device.memory.executes()) return {};
  if (kernel_->run(arguments_.data(), arguments_.size(), blocks_)) return {};
  return device_error(
      context.device, ACL_ERROR_RT_AICORE_EXCEPTION,
      fmt::format("kernel {}: an address of its arguments is not inside live device memory", kernel_->name));
}

double KernelTask::account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const {
  const Timing& timing = profile.timing;
  const bool cube = kernel_->type == KernelType::kAiCore || kernel_->type == KernelType::kMix;
  const uint32_t cores = cube ? profile.cube_cores : profile.vector_cores;
  // Fewer blocks than cores leave the others idle; memory is shared, and a few cores already keep it busy.
  const double share = cores == 0 ? 1.0 : std::clamp(static_cast<double>(blocks_) / cores, 1.0 / cores, 1.0);
  const double moved = static_cast<double>(cost_.bytes_read + cost_.bytes_written) / timing.memory_bandwidth;
  const double rate = timing.cube_rate * (cost_.integer ? 2.0 : 1.0) * share;
  const double computed = static_cast<double>(cost_.multiply_adds) / rate;
  const double seconds = std::max(moved, computed);
  ++statistics.kernels;
  if (in_graph) ++statistics.graph_kernels;
  statistics.bytes_read += cost_.bytes_read;
  statistics.bytes_written += cost_.bytes_written;
  statistics.multiply_adds += cost_.multiply_adds;
  statistics.kernel_time += seconds;
  KernelTotals& totals = statistics.account.kernels[kernel_];
  ++totals.runs;
  if (in_graph) ++totals.graph_runs;
  totals.bytes_read += cost_.bytes_read;
  totals.bytes_written += cost_.bytes_written;
  totals.multiply_adds += cost_.multiply_adds;
  totals.seconds += seconds;
  if (moved >= computed) totals.memory_seconds += seconds;
  return seconds + (in_graph ? timing.graph_kernel_start : timing.kernel_start);
}

void KernelTask::list_memory(std::vector<MemoryUse>& uses) const {
  if (kernel_->memory) {
    const auto visit = [](void* context, const void* address, size_t bytes, bool writes) {
      if (bytes > 0) static_cast<std::vector<MemoryUse>*>(context)->push_back({address, bytes, writes});
    };
    kernel_->memory(arguments_.data(), arguments_.size(), visit, &uses);
    return;
  }
  // Nothing is known of the arguments but that an address is a word; what it is of only the ledger can tell.
  for (size_t offset = 0; offset + sizeof(void*) <= arguments_.size(); offset += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, arguments_.data() + offset, sizeof word);
    uses.push_back({word, 1, false});
  }
}

std::string KernelTask::describe() const { return fmt::format("{} x{}", kernel_->name, blocks_); }

Status find_kernel(aclrtFuncHandle handle, const Kernel** kernel) {
  const auto* candidate = static_cast<const Kernel*>(handle);
  if (reinterpret_cast<uintptr_t>(handle) % alignof(Kernel) != 0 || !host_readable(handle, sizeof(Kernel)) ||
      candidate->magic != kKernelMagic || !candidate->run || !candidate->name) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is no function of a kernel", handle));
  }
  *kernel = candidate;
  return {};
}

Status check_arguments(const Kernel& kernel, const void* arguments, size_t bytes) {
  if (host_readable(arguments, bytes)) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("kernel {}: the {} bytes of its arguments at {} are not all memory of the host",
                            kernel.name, bytes, arguments));
}

}  // namespace reprise::emulator
