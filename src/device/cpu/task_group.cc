#include "device/cpu/task_group.h"

#include <algorithm>
#include <cstring>

namespace reprise::device::cpu {

void GroupLaunch::replace(const Instruction& update) {
  const size_t bytes = block_bytes(update.argument_bytes, update.tail_bytes);
  if (bytes > capacity) {
    capacity = group_launch_capacity(bytes);
    grown = std::make_unique_for_overwrite<std::byte[]>(capacity);
    instruction->launch.arguments = grown.get();
  }
  // The graph owns the block that its instruction points to; it is const only for kernels.
  std::byte* block = const_cast<std::byte*>(instruction->launch.arguments);
  if (bytes > 0) std::memcpy(block, update.update.launch.arguments, bytes);
  instruction->launch.kernel = update.update.launch.kernel;
  instruction->launch.tiles = update.update.launch.tiles;
  instruction->threads = update.threads;
  instruction->argument_bytes = update.argument_bytes;
  instruction->tail_bytes = update.tail_bytes;
}

size_t group_launch_capacity(size_t bytes) {
  constexpr size_t kSlack = 1024;
  return (2 * bytes + kSlack + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
}

std::string_view kernel_kind(const Kernel& kernel) {
  const std::string_view name(kernel.name);
  return name.substr(0, name.find('.'));
}

}  // namespace reprise::device::cpu
