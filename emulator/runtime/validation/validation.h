// The validation layer: what the runtime tells it, and the misuse that it finds (REPRISE_ACL_VALIDATE).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "emulator/runtime/status.h"
#include "emulator/runtime/validation/host_watch.h"
#include "emulator/runtime/validation/memory_ledger.h"
#include "emulator/runtime/validation/misuse.h"
#include "emulator/runtime/validation/object_ledger.h"
#include "emulator/runtime/validation/order.h"
#include "emulator/runtime/validation/replay_watch.h"
#include "emulator/runtime/validation/signal_watch.h"
#include "emulator/runtime/validation/update_watch.h"

namespace reprise::emulator {

class CapturedGraph;
class GraphNode;
class Task;

/// What is kept with a task from its submission on.
struct TaskNotes {
  CallSite site;
  std::vector<MemoryUse> memory;
};

/// What is kept with a run of a graph.
struct ReplayNotes {
  const Task* task = nullptr;
  WatchedReplay watched;
};

/// Off, it costs a test of a flag. Thread-safe; calls that name Runtime's objects hold Runtime::mutex(), which is
/// always taken before this one's own.
class Validation {
 public:
  static Validation& instance();
  static bool on() { return on_.load(std::memory_order_relaxed); }

  Status open_environment();
  /// At aclFinalize(): reports leaks, says how many problems there were, and is off. 100000 when a report could not be
  /// written.
  Status finish();

  // Objects behind handles.
  void created(ObjectKind kind, const void* handle, int32_t device);
  void destroyed(const void* handle);
  void destroy_refused(ObjectKind kind, const void* handle);
  void use_refused(ObjectKind kind, const void* handle);
  void device_reset(int32_t device);

  // Memory.
  void memory_allocated(const void* address, uint64_t bytes, int32_t device);
  void memory_freed(const void* address);
  void host_allocated(const void* address, uint64_t bytes);
  void host_freed(const void* address);

  // Tasks: notes are made when a call submits them.
  void submitted(const Task& task);
  /// A task became a node of a graph.
  void captured(const CapturedGraph& graph, const Task& task);
  /// A task is no more, whether it ran or not.
  void forget(const Task& task);
  void graph_made(const std::shared_ptr<CapturedGraph>& graph);
  void graph_released(const CapturedGraph& graph);

  // Order. Pointers are null while the layer is off, and what gets null does nothing.
  std::unique_ptr<OrderLine> start_line();
  void end_line(std::unique_ptr<OrderLine> line);
  /// What the host has seen happen; threads of the host count as one line.
  OrderPointer host_order();
  void host_saw(const OrderLine* line);
  void host_saw(const OrderPointer& order);
  void acquire(OrderLine* line, const OrderPointer& order);
  OrderPointer release(OrderLine* line);
  /// A line that begins where `line` is, and the end of one.
  std::unique_ptr<OrderLine> fork(OrderLine* line);
  void join(OrderLine* line, std::unique_ptr<OrderLine> other);

  // Replays: launched by the host; begun, each node, ended on a line.
  void replay_submitted(const CapturedGraph& graph, const Task& task);
  std::unique_ptr<ReplayNotes> replay_began(const CapturedGraph& graph, const Task& task, OrderLine* line);
  void node_runs(const GraphNode& node, const Task& task, ReplayNotes* replay, OrderLine* line);
  void replay_ended(std::unique_ptr<ReplayNotes> replay, OrderLine* line);
  void group_rewritten(const void* group, const Task& task, OrderLine* line);

  // Signals.
  void word_written(const void* word, uint64_t value, const Task& task);
  void word_seen(const void* word);
  void words_overwritten(const void* address, uint64_t bytes);
  void external_recorded(const void* event, bool raised, const Task& task);
  void old_event_recorded(const void* event, uint64_t pending);

  // Copies from the host's memory and to it. `replay`: of a copy in a graph.
  void copy_submitted(const Task& task);
  void copy_runs(const Task& task, const ReplayNotes* replay, bool over);
  void host_written(const void* address, uint64_t bytes);
  void host_function_ran();

 private:
  Validation() = default;
  void forget_memory(const void* address);
  void watch_host(const Task* replay, const Task& task);
  void find_allocations(std::vector<MemoryUse>& uses) const;
  const GraphNode* find_user(const CapturedGraph& graph, uint64_t allocation) const;
  void report_freed(const ReplayNotes& replay, const Task& task, const MemoryUse& use);

  inline static std::atomic<bool> on_ = false;

  std::mutex mutex_;
  MisuseReporter reporter_;
  ObjectLedger objects_{reporter_};
  MemoryLedger memory_;
  UpdateWatch updates_{reporter_};
  ReplayWatch replays_{reporter_};
  SignalWatch signals_{reporter_};
  HostWatch host_{reporter_};
  OrderLines lines_;
  std::unique_ptr<OrderLine> host_line_;
  OrderPointer host_snapshot_;  // of host_line_, while nothing changed it
  std::unordered_map<const CapturedGraph*, std::weak_ptr<CapturedGraph>> graphs_;
};

}  // namespace reprise::emulator
