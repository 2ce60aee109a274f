// Copies and fills.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/runtime/task.h"

namespace reprise::emulator {

class DeviceMemory;

/// Rows of bytes: a plain copy has one.
struct CopyShape {
  void* destination = nullptr;
  size_t destination_pitch = 0;
  const void* source = nullptr;
  size_t source_pitch = 0;
  size_t width = 0;
  size_t height = 1;

  size_t destination_bytes() const { return (height - 1) * destination_pitch + width; }
  size_t source_bytes() const { return (height - 1) * source_pitch + width; }
};

/// Where both sides of a copy are.
struct CopySides {
  bool source_on_device = false;
  bool destination_on_device = false;
  // A host side is memory of aclrtMallocHost.
  bool source_pinned = false;
  bool destination_pinned = false;

  /// A host side is not: the device cannot reach it by itself.
  bool pageable() const {
    return !(source_on_device || source_pinned) || !(destination_on_device || destination_pinned);
  }
};

/// Checks the sides against the kind; 107000 when an address is not where the kind says, or not in live memory.
Status check_copy(const CopyShape& shape, aclrtMemcpyKind kind, DeviceMemory& memory, CopySides& sides);
/// 107000 unless the bytes are in live device memory.
Status check_fill(const void* address, size_t bytes, DeviceMemory& memory);

/// Moves the bytes now. 507015 when device or pinned memory is gone, 107000 when there is no other memory of the host.
Status copy_bytes(const CopyShape& shape, const CopySides& sides, DeviceMemory& memory);
Status fill_bytes(void* address, int32_t value, size_t bytes, DeviceMemory& memory);

class CopyTask final : public Task {
 public:
  CopyTask(const CopyShape& copied, const CopySides& where) : shape(copied), sides(where) {}
  TaskKind kind() const override { return TaskKind::kCopy; }
  Status run(TaskContext& context) const override;
  double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const override;
  std::string describe() const override;
  void list_memory(std::vector<MemoryUse>& uses) const override;
  HostRange host_source() const override;
  HostRange host_destination() const override;

  const CopyShape shape;
  const CopySides sides;
};

class FillTask final : public Task {
 public:
  FillTask(void* begin, int32_t byte, size_t count) : address(begin), value(byte), bytes(count) {}
  TaskKind kind() const override { return TaskKind::kFill; }
  Status run(TaskContext& context) const override;
  double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const override;
  std::string describe() const override;
  void list_memory(std::vector<MemoryUse>& uses) const override;

  void* const address;
  const int32_t value;
  const size_t bytes;
};

}  // namespace reprise::emulator
