// A launch of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/kernel.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class KernelTask final : public Task {
 public:
  /// Copies the arguments. `kernel` lives as long as the process.
  KernelTask(const Kernel* kernel, uint32_t blocks, const void* arguments, size_t bytes);

  TaskKind kind() const override { return TaskKind::kKernel; }
  Status run(TaskContext& context) const override;
  double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const override;
  std::string describe() const override;
  void list_memory(std::vector<MemoryUse>& uses) const override;

  const Kernel& kernel() const { return *kernel_; }
  uint32_t blocks() const { return blocks_; }
  const KernelCost& cost() const { return cost_; }
  const std::vector<std::byte>& arguments() const { return arguments_; }

 private:
  const Kernel* kernel_;
  uint32_t blocks_;
  std::vector<std::byte> arguments_;
  KernelCost cost_;
};

/// The kernel behind a handle. 107000 for what is none.
Status find_kernel(aclrtFuncHandle handle, const Kernel** kernel);
/// 107000 when they cannot be read.
Status check_arguments(const Kernel& kernel, const void* arguments, size_t bytes);

}  // namespace reprise::emulator
