#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device/captured_graph.h"
#include "device/cpu/instruction.h"

namespace reprise::device::cpu {

/// A launch of a task group: where it lies in its graph, and room for its arguments.
struct GroupLaunch {
  Instruction* instruction = nullptr;
  size_t capacity = 0;                 ///< bytes at instruction->launch.arguments
  std::unique_ptr<std::byte[]> grown;  ///< in use once an update needed more than the graph had reserved

  /// Executes an update: exchanges kernel, tiles and arguments.
  void replace(const Instruction& update);
};

/// Room that a group's launch gets for its arguments, so that usual updates fit without an allocation: a tail that
/// grows with the sequences, for example.
size_t group_launch_capacity(size_t bytes);

/// What must be equal for an update to be accepted: a kernel's name up to the first '.', e.g. "paged_attention" of
/// "paged_attention.bf16.avx512". What follows names how it is computed.
std::string_view kernel_kind(const Kernel& kernel);

/// The launches between a begin and an end of a captured graph.
class CpuTaskGroup : public TaskGroup {
 public:
  CpuTaskGroup(GraphProgram& program, uint32_t first, uint32_t last) : program_(program), first_(first), last_(last) {}
  int64_t launches() const override { return last_ - first_; }

  GraphProgram& program() { return program_; }
  /// Its instructions in the program are [first, last), all of them launches.
  uint32_t first() const { return first_; }
  uint32_t last() const { return last_; }
  bool contains(uint32_t instruction) const { return instruction >= first_ && instruction < last_; }

  /// Set when the capture has ended; in the order of the launches.
  std::vector<GroupLaunch>& group_launches() { return group_launches_; }

  /// Between begin and end of an update by some stream. Guarded by the core's mutex.
  bool updating = false;
  /// The kinds that updates are checked against.
  std::vector<std::string_view> kinds;

 private:
  GraphProgram& program_;
  uint32_t first_;
  uint32_t last_;
  std::vector<GroupLaunch> group_launches_;
};

}  // namespace reprise::device::cpu
