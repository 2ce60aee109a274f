#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "device/cpu/memory_map.h"
#include "device/cpu/segment_runner.h"
#include "device/cpu/stream_queue.h"

namespace reprise::device::cpu {

/// Runs the queues of all streams, on whichever thread needs a result: a thread that synchronises or queries takes
/// steps until what it waits for is there. One thread at a time executes; a step picks the most urgent queue whose next
/// instruction need not wait and runs it as far as it goes without blocking. When nothing can run, the thread sleeps
/// until work is queued or another thread has executed.
///
/// All functions are called with the core's mutex locked; a step unlocks it while it executes.
class Executor {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  Executor(ThreadTeam& team, MemoryMap& memory) : runner_(team), memory_(memory) {}

  void add(StreamQueue& queue);
  void remove(StreamQueue& queue);

  /// Numbers the next queued instruction; announces it to sleeping threads.
  uint64_t next_sequence();
  uint64_t last_sequence() const { return sequence_; }
  /// All instructions up to this number have run.
  uint64_t done_sequence() const;

  /// Nothing is queued on any stream.
  bool is_idle() const { return done_sequence() == sequence_; }
  /// The first error of any stream's work, which is forgotten by that.
  std::exception_ptr take_error();

  /// Executes and sleeps until `done()` holds; false when the deadline passed first. `target` goes before other queues
  /// of its priority; it may be null.
  template <typename Done>
  bool run_until(Lock& lock, const StreamQueue* target, const Done& done, Deadline deadline = std::nullopt) {
    while (!done()) {
      // While other streams have work, steps follow one another without sleep.
      const bool in_time = step(lock, target) ? !has_passed(deadline) : sleep(lock, deadline);
      if (!in_time) return done();
    }
    return true;
  }
  /// Executes until `done()` holds or nothing can run, and does not sleep. Returns done().
  template <typename Done>
  bool run_ready(Lock& lock, const StreamQueue* target, const Done& done) {
    while (!done() && step(lock, target)) {
    }
    return done();
  }
  /// Waits until no thread executes, so that what runs can be looked at.
  void wait_until_paused(Lock& lock);

  /// Waits until no thread executes. Null: nobody is told what runs.
  void set_observer(Lock& lock, Observer* observer);
  Observer* observer() const { return observer_; }

 private:
  /// Executes a part of the most urgent queue. False when another thread executes or nothing can run.
  bool step(Lock& lock, const StreamQueue* target);
  static bool has_passed(Deadline deadline) { return deadline && std::chrono::steady_clock::now() >= *deadline; }
  /// False when the deadline has passed.
  bool sleep(Lock& lock, Deadline deadline);
  StreamQueue* pick(const StreamQueue* target);
  static bool can_run(const StreamQueue& queue, const Instruction& instruction);
  /// Runs the front of a queue as far as it goes in one segment or replay, without the mutex.
  void execute(StreamQueue& queue);

  SegmentRunner runner_;
  MemoryMap& memory_;
  std::vector<StreamQueue*> queues_;  ///< most urgent first
  uint64_t sequence_ = 0;
  bool executing_ = false;
  Observer* observer_ = nullptr;
  int sleepers_ = 0;
  std::condition_variable changed_;
};

}  // namespace reprise::device::cpu
