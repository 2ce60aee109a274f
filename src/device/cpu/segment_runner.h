#pragma once

#include <exception>
#include <span>

#include "base/thread_team.h"
#include "device/cpu/instruction.h"

namespace reprise::device::cpu {

/// Runs segments: stretches of instructions that block nowhere, so that one fork of the team does them all, with a
/// barrier between launches that depend on each other (any two in a row, as nothing else is known of them).
class SegmentRunner {
 public:
  explicit SegmentRunner(ThreadTeam& team) : team_(team) {}

  /// Runs one segment. A host function's exception is put into `error` when none is there yet; the instructions after
  /// it still run. So is that of a kernel (which must not throw), but it ends the segment.
  void run(std::span<const Instruction> segment, std::exception_ptr& error);

 private:
  void run_on_team(std::span<const Instruction> segment, int width, std::exception_ptr& error);
  void run_alone(std::span<const Instruction> segment, std::exception_ptr& error);

  ThreadTeam& team_;
};

}  // namespace reprise::device::cpu
