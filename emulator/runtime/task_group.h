// Kernels of a graph that can be launched anew with other arguments.
#pragma once

#include <memory>
#include <vector>

#include "emulator/runtime/graph_node.h"
#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/kernel_task.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class Capture;
class CapturedGraph;
class Stream;

/// Belongs to its graph. Guarded by Runtime::mutex().
class TaskGroup {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kTaskGroup;

  /// Only kernels of the AI cores and the vector cores may be in one: 507009 for anything else.
  static Status check_kind(const Task& task);

  void* handle = nullptr;
  std::weak_ptr<CapturedGraph> graph;
  const Stream* owner = nullptr;  // where it was begun; for comparison only
  std::vector<std::shared_ptr<GraphNode>> nodes;
  Status error;           // of the first call that failed inside
  bool updating = false;  // on some stream
};

/// The launches between the beginning and the end of an update, on one stream. Guarded by Runtime::mutex().
class TaskUpdate {
 public:
  explicit TaskUpdate(std::shared_ptr<TaskGroup> updated) : group(std::move(updated)) {}

  /// The next kernel in the group's order: 507009 for what is no kernel, 507000 for one too many or of another type.
  Status add(TaskPointer task);
  /// 507000 when kernels are missing.
  Status check_complete() const;

  const std::shared_ptr<TaskGroup> group;
  std::vector<std::shared_ptr<const KernelTask>> kernels;
};

/// Rewrites the kernels of a graph, in its stream's order.
class UpdateTask final : public Task {
 public:
  explicit UpdateTask(const TaskUpdate& update) : group_(update.group), kernels_(update.kernels) {}
  TaskKind kind() const override { return TaskKind::kUpdate; }
  Status run(TaskContext& context) const override;
  double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const override;

 private:
  std::shared_ptr<TaskGroup> group_;
  std::vector<std::shared_ptr<const KernelTask>> kernels_;
};

// The calls, in the order of their checks. With Runtime::mutex() held.
Status begin_task_group(Stream& stream);
Status end_task_group(Stream& stream, aclrtTaskGrp* handle);
Status begin_task_update(Stream& stream, aclrtTaskGrp handle);
Status end_task_update(Stream& stream);

}  // namespace reprise::emulator
