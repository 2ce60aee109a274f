#pragma once

#include <cstdint>
#include <string>

namespace reprise::device {

class Stream;

/// Counts of what one replay does, and what the graph holds in memory.
struct GraphStatistics {
  int64_t launches = 0;
  int64_t copies = 0;
  int64_t fills = 0;
  int64_t host_functions = 0;
  int64_t records = 0;
  int64_t waits = 0;
  int64_t task_groups = 0;
  int64_t streams = 0;
  int64_t bytes = 0;  ///< of the graph itself: instructions and arguments
};

/// Names one task group of a captured graph; valid while the graph lives.
class TaskGroup {
 public:
  virtual ~TaskGroup() = default;
  /// Launches between its begin and end.
  virtual int64_t launches() const = 0;
};

/// What a capture yields: launches with frozen arguments and addresses. Memory that it reads or writes must stay
/// allocated until it is destroyed; contents are read at each replay.
class CapturedGraph {
 public:
  /// Destroys the graph after its last replay has ended; runs the destroy callbacks.
  virtual ~CapturedGraph() = default;

  /// Queues one run on a stream that does not capture (kStreamCapturing otherwise). May return while the graph waits
  /// for an external event. kGraphCapturing while the graph is still being captured.
  virtual void replay(Stream& stream) = 0;

  virtual GraphStatistics statistics() const = 0;
  /// How many of its cores the device uses for replays and why, for people: "1 of 2 threads: 61.2 us alone, 75.3 us
  /// shared". Empty where the device does not choose, or has not chosen yet.
  virtual std::string core_choice() const { return {}; }
  /// One instruction a line, readable without other tools.
  virtual std::string to_text() const = 0;
  /// The same as one JSON object.
  virtual std::string to_json() const = 0;
  /// Equal for equal instructions and arguments; without addresses, equal for two captures of the same work.
  virtual uint64_t hash(bool with_addresses) const = 0;

  /// Called with `data` when the graph is destroyed, in the order of registration. Must not throw.
  virtual void add_destroy_callback(void (*callback)(void* data), void* data) = 0;
  /// Frees what the graph holds. Waits up to `timeout_ms` for running replays, then throws kGraphRunning;
  /// kGraphCapturing while it is being captured. Afterwards replay() fails with kFailedPrecondition.
  virtual void close(int timeout_ms = 10000) = 0;
};

}  // namespace reprise::device
