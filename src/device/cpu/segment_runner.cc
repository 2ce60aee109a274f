#include "device/cpu/segment_runner.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/event_state.h"
#include "device/cpu/task_group.h"

namespace reprise::device::cpu {
namespace {

/// The part of `count` things that one of `width` threads does.
struct Part {
  int64_t first;
  int64_t last;
};
Part part_of(int64_t count, int thread, int width) { return {count * thread / width, count * (thread + 1) / width}; }

/// Calls what may throw: host functions, updates that need memory, and kernels that break their promise.
template <typename Function>
void call_guarded(const Function& function, std::exception_ptr& error) {
  try {
    function();
  } catch (...) {
    if (error == nullptr) error = std::current_exception();
  }
}

/// The threads that a segment can use, of `threads` that there are. Counted anew each time: updates change tiles.
int width_of_segment(std::span<const Instruction> segment, int threads) {
  if (threads == 1) return 1;
  int width = 0;
  for (const Instruction& instruction : segment) width = std::max(width, width_of(instruction, threads));
  return width;
}

/// Does one thread's part of an instruction that `width` threads share.
void perform(const Instruction& instruction, int thread, int width, std::exception_ptr& error) {
  switch (instruction.opcode) {
    case Opcode::kLaunch: {
      const LaunchOperands& launch = instruction.launch;
      const Part part = part_of(launch.tiles, thread, width);
      if (part.first < part.last) launch.kernel->run(launch.arguments, part.first, part.last);
      break;
    }
    case Opcode::kCopy: {
      const Part part = part_of(static_cast<int64_t>(instruction.copy.bytes), thread, width);
      std::memmove(static_cast<std::byte*>(instruction.copy.destination) + part.first,
                   static_cast<const std::byte*>(instruction.copy.source) + part.first,
                   static_cast<size_t>(part.last - part.first));
      break;
    }
    case Opcode::kFill: {
      const Part part = part_of(static_cast<int64_t>(instruction.fill.bytes), thread, width);
      std::memset(static_cast<std::byte*>(instruction.fill.destination) + part.first, instruction.fill.value,
                  static_cast<size_t>(part.last - part.first));
      break;
    }
    case Opcode::kHostFunction:
      call_guarded([&] { instruction.host.function(instruction.host.data); }, error);
      break;
    case Opcode::kExternalRecord:
      instruction.event.event->signalled = true;
      break;
    case Opcode::kRecord:
      instruction.event.event->reach(instruction.event.ticket);
      break;
    case Opcode::kRecordEdge:
      if (instruction.edge.done != nullptr) *instruction.edge.done = 1;
      break;
    case Opcode::kUpdateLaunch:
      call_guarded([&] { instruction.update.target->replace(instruction); }, error);
      break;
    case Opcode::kExternalWait:  // the waits are over when a segment runs
    case Opcode::kWait:
    case Opcode::kWaitEdge:
    case Opcode::kReplay:
    case Opcode::kBeginGroup:
    case Opcode::kEndGroup:
      break;
  }
}

}  // namespace

void SegmentRunner::run_alone(std::span<const Instruction> segment, std::exception_ptr& error) {
  for (const Instruction& instruction : segment) {
    if (instruction.opcode == Opcode::kLaunch) {
      const LaunchOperands& launch = instruction.launch;
      if (launch.tiles > 0) launch.kernel->run(launch.arguments, 0, launch.tiles);
    } else {
      perform(instruction, 0, 1, error);
    }
  }
}

void SegmentRunner::run(std::span<const Instruction> segment, std::exception_ptr& error) {
  const int width = width_of_segment(segment, team_.size());
  call_guarded([&] { width <= 1 ? run_alone(segment, error) : run_on_team(segment, width, error); }, error);
}

void SegmentRunner::run_on_team(std::span<const Instruction> segment, int width, std::exception_ptr& error) {
  team_.run(width, [&](int thread) {
    // Every thread walks the instructions and comes to the same decisions. Instructions in a row that thread 0 does
    // alone need no barrier between them.
    int widest = 0;  // since the last barrier
    for (const Instruction& instruction : segment) {
      const int shared_by = width_of(instruction, width);
      if (shared_by == 0) continue;
      if (widest != 0 && std::max(widest, shared_by) > 1) {
        team_.barrier();
        widest = 0;
      }
      if (thread < shared_by) perform(instruction, thread, shared_by, error);
      widest = std::max(widest, shared_by);
    }
  });
}

}  // namespace reprise::device::cpu
