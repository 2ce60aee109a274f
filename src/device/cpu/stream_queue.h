#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "device/cpu/instruction_list.h"

namespace reprise::device::cpu {

/// The work queued on one stream. Two lists take turns: calls fill one (under the core's mutex) while the executing
/// thread runs the other, so that in steady state nothing is allocated.
class StreamQueue {
 public:
  explicit StreamQueue(int priority) : priority_(priority) {}
  int priority() const { return priority_; }

  // For callers; guarded by the core's mutex.
  bool empty() const { return pending_ == 0; }
  size_t pending() const { return pending_; }
  /// Long enough that the caller should run what is there.
  bool is_long() const { return filling_.size() >= kLongQueue || filling_.argument_bytes() >= kLongArguments; }
  /// The list to add to. `sequence` numbers the device's instructions in the order of queueing.
  InstructionList& append(uint64_t sequence) {
    if (filling_.empty()) filling_since_ = sequence;
    ++pending_;
    return filling_;
  }
  /// Keeps what the last instruction refers to until it has run.
  void keep(std::shared_ptr<const void> object) { filling_.keep(std::move(object)); }
  /// The number of the oldest instruction that may not have run; only when not empty.
  uint64_t oldest_sequence() const { return running_pending_ > 0 ? running_since_ : filling_since_; }
  std::exception_ptr take_error() { return std::exchange(error_, nullptr); }

  // For the executor while no thread executes; guarded by the core's mutex.
  /// The next instruction to run, or null.
  const Instruction* front();

  // For the executing thread, without the mutex.
  std::span<const Instruction> rest() const { return std::as_const(running_).instructions().subspan(position_); }
  /// Forgets what has run; lets go of what the list kept when it is at its end.
  void advance(size_t count);
  std::exception_ptr& error_of_run() { return run_error_; }

  // For the executor when the thread has stopped; guarded by the core's mutex.
  /// Publishes how far the thread came.
  void settle();
  /// Forgets all work, replays that have begun included. For a stream that ends while something it waits for does not
  /// come.
  void drop();

 private:
  static constexpr size_t kLongQueue = 4096;
  static constexpr size_t kLongArguments = size_t{1} << 20;

  const int priority_;
  InstructionList filling_;
  uint64_t filling_since_ = 0;
  size_t pending_ = 0;          ///< instructions that have not run, of both lists
  size_t running_pending_ = 0;  ///< of the running one
  uint64_t running_since_ = 0;
  std::exception_ptr error_;

  // The executing thread's.
  InstructionList running_;
  size_t position_ = 0;
  size_t advanced_ = 0;  ///< since the last settle()
  std::exception_ptr run_error_;
};

}  // namespace reprise::device::cpu
