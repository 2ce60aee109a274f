#pragma once

#include <exception>
#include <span>

#include "base/thread_team.h"
#include "device/cpu/instruction.h"
#include "device/cpu/launch_times.h"
#include "device/observer.h"

namespace reprise::device::cpu {

/// Runs segments: stretches of instructions that block nowhere. The executing thread goes through them in order. A
/// launch that is worth it is shared with the team, which deals its tiles; launches that are known to be independent
/// are shared together. The next instruction begins when all are done. What one thread does by itself, instructions in
/// a row included, costs no synchronisation.
class SegmentRunner {
 public:
  struct Options {
    bool alone = false;    ///< the executing thread does everything
    bool observe = false;  ///< note how long launches take
  };

  explicit SegmentRunner(ThreadTeam& team) : team_(team) {}

  int threads() const { return team_.size(); }
  /// Who is told how long each instruction takes; launches that could be done together are done one by one then.
  void set_observer(Observer* observer) { observer_ = observer; }

  /// Runs one segment. A host function's exception is put into `error` when none is there yet; the instructions after
  /// it still run. So is that of a kernel (which must not throw), but it ends the segment.
  void run(std::span<const Instruction> segment, std::exception_ptr& error);
  /// The same for instructions of a captured graph, whose times can be noted.
  void run(std::span<Instruction> segment, Options options, std::exception_ptr& error);

  /// Chunks into which a launch is cut for `threads` threads; 1: sharing would cost more than it gains.
  static int chunks_of(const Instruction& launch, int threads);

 private:
  void perform(const Instruction& instruction, int threads, std::exception_ptr& error);
  void launch(const Instruction& instruction, int threads);
  /// Does independent launches as one job.
  void launch_together(std::span<const Instruction> launches, std::exception_ptr& error);
  /// Launches and notes how long that took.
  void observe(Instruction& instruction, int threads);
  /// Does a launch that is no part of a captured graph.
  void launch_once(const Instruction& instruction);
  void run_alone(std::span<const Instruction> segment, std::exception_ptr& error);
  void run_shared(std::span<const Instruction> segment, std::exception_ptr& error);
  void run_observed(std::span<Instruction> segment, int threads, std::exception_ptr& error);
  void run_profiled(std::span<const Instruction> segment, int most_threads, std::exception_ptr& error);

  ThreadTeam& team_;
  LaunchTimes times_;
  Observer* observer_ = nullptr;
};

}  // namespace reprise::device::cpu
