// What streams and graphs consist of.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/runtime/profile.h"
#include "emulator/runtime/status.h"
#include "emulator/runtime/validation/memory_ledger.h"

namespace reprise::emulator {

class Device;
struct DeviceStatistics;
class OrderLine;
class Replay;
class Stream;
struct TaskNotes;

/// Bytes of the host.
struct HostRange {
  const void* address = nullptr;
  uint64_t bytes = 0;
};

/// A hold of Runtime::mutex(), which guards everything but memory and the bytes in it.
using Lock = std::unique_lock<std::mutex>;

enum class TaskKind {
  kKernel,
  kCopy,
  kFill,
  kEventRecord,
  kEventWait,
  kEventReset,
  kNotifyRecord,
  kNotifyWait,
  kValueWrite,
  kValueWait,
  kHostFunction,
  kCallback,
  kReplay,
  kUpdate,
  kEdgeRecord,
  kEdgeWait,
  kCondition,
};
/// The kind's name for messages and dumps: "kernel", "copy" ...
const char* name_of(TaskKind kind);

/// Where a task runs: on a stream's turn, or inside a replay on one.
struct TaskContext {
  enum class Wait { kDone, kTimeout, kAborted };

  Device& device;
  Stream& stream;             // the user's stream: for a replay the one that it was launched on
  Replay* replay = nullptr;   // set inside a graph
  double clock = 0;           // of the timing model, on this line of execution
  OrderLine* line = nullptr;  // what happened before, for the validation layer; null while it is off

  /// Waits until `ready`, which is asked under the lock, holds. Aborting the stream or ending the runtime ends it.
  Wait wait(Lock& lock, const std::function<bool()>& ready,
            std::optional<std::chrono::milliseconds> limit = std::nullopt) const;
  bool aborted() const;
};

/// Immutable once it is submitted: a graph runs it again and again, and an update puts another in its place.
class Task {
 public:
  Task() = default;
  virtual ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual TaskKind kind() const = 0;
  /// Called without the lock, by a thread of the pool.
  virtual Status run(TaskContext& context) const = 0;
  /// Adds one run to the statistics; its seconds by the timing model. Called under the lock.
  virtual double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const;
  /// One line for dumps.
  virtual std::string describe() const { return name_of(kind()); }
  /// Adds the device memory and the pinned memory that it uses.
  virtual void list_memory(std::vector<MemoryUse>& /*uses*/) const {}
  /// Pinned memory that it reads when it runs.
  virtual HostRange host_source() const { return {}; }
  /// Pinned memory that it writes.
  virtual HostRange host_destination() const { return {}; }

  /// Made when the task is submitted, for the validation layer.
  mutable std::shared_ptr<const TaskNotes> notes;
};

using TaskPointer = std::shared_ptr<const Task>;

/// Runs a task where `context` is, accounts for it and moves the context's clock. Without the lock held.
Status execute(const Task& task, TaskContext& context);

}  // namespace reprise::emulator
