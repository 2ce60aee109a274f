// Running a graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class Event;

/// What the external flags of record and wait stand for in one launch: the record's number of each event.
using ExternalBindings = std::map<const Event*, uint64_t>;

/// One run of a graph's lines, side by side. Its state is guarded by Runtime::mutex().
class Replay {
 public:
  Replay(CapturedGraph& graph, const ExternalBindings& bindings, const Replay* outer);

  /// Without the lock held; returns when all lines have ended. The origin's line runs in the calling thread.
  Status run(TaskContext& context);

  // Of edges between its lines.
  void pass(size_t edge, double clock);
  bool passed(size_t edge) const { return edges_[edge].has_value(); }
  double clock_of(size_t edge) const { return *edges_[edge]; }
  /// The record that an event's external record or wait means; 0: none.
  uint64_t binding(const Event& event) const;
  bool failed() const { return !failure_.ok() || graph_.abort_requested || (outer_ && outer_->failed()); }
  const ExternalBindings& bindings() const { return bindings_; }

 private:
  void run_line(const InnerStream& line, TaskContext& context);
  void run_beside(const InnerStream& line, TaskContext context);

  CapturedGraph& graph_;
  const ExternalBindings& bindings_;
  const Replay* outer_;
  std::vector<std::optional<double>> edges_;
  Status failure_;
  size_t beside_ = 0;  // lines that other threads run
  double clock_ = 0;
};

/// A launch of a graph, on its stream's turn.
class ReplayTask final : public Task {
 public:
  ReplayTask(std::shared_ptr<CapturedGraph> graph, ExternalBindings bindings);
  ~ReplayTask() override;
  ReplayTask(const ReplayTask&) = delete;
  ReplayTask& operator=(const ReplayTask&) = delete;

  TaskKind kind() const override { return TaskKind::kReplay; }
  Status run(TaskContext& context) const override;
  double account(const Profile& profile, bool in_graph, DeviceStatistics& statistics) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<CapturedGraph> graph_;
  ExternalBindings bindings_;
};

/// The checks and the launch of aclmdlRIExecuteAsync. With Runtime::mutex() held.
Status launch_graph(const std::shared_ptr<CapturedGraph>& graph, Stream& stream);

}  // namespace reprise::emulator
