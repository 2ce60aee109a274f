// Running a graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/validation/validation.h"

namespace reprise::emulator {

class Event;

/// What the external flags of record and wait stand for in one launch: the record's number of each event.
using ExternalBindings = std::map<const Event*, uint64_t>;

/// One run of a graph's lines, side by side. Its state is guarded by Runtime::mutex().
class Replay {
 public:
  Replay(CapturedGraph& graph, const ExternalBindings& bindings, Replay* outer);

  /// Without the lock held; returns when all lines have ended. The origin's line runs in the calling thread.
  Status run(TaskContext& context);

  // Of edges between its lines.
  void pass(size_t edge, double clock, OrderPointer order);
  bool passed(size_t edge) const { return edges_[edge].has_value(); }
  double clock_of(size_t edge) const { return *edges_[edge]; }
  const OrderPointer& order_of(size_t edge) const { return orders_[edge]; }
  /// What the validation layer keeps with the outermost replay; null while it is off.
  void keep(std::unique_ptr<ReplayNotes> notes) { notes_ = std::move(notes); }
  ReplayNotes* notes() { return outer_ ? outer_->notes() : notes_.get(); }
  // What ran: with the lock held.
  uint64_t kernels() const { return kernels_; }
  uint64_t bytes_moved() const { return bytes_moved_; }
  std::unique_ptr<ReplayNotes> take_notes() { return std::move(notes_); }
  /// The record that an event's external record or wait means; 0: none.
  uint64_t binding(const Event& event) const;
  bool failed() const { return !failure_.ok() || graph_.abort_requested || (outer_ && outer_->failed()); }
  const ExternalBindings& bindings() const { return bindings_; }

 private:
  void run_line(const InnerStream& line, TaskContext& context);
  void run_beside(const InnerStream& line, TaskContext context);
  void count(const Task& task);

  CapturedGraph& graph_;
  const ExternalBindings& bindings_;
  Replay* outer_;
  std::vector<std::optional<double>> edges_;
  std::vector<OrderPointer> orders_;               // of the edges
  std::vector<std::unique_ptr<OrderLine>> lines_;  // of those beside
  std::unique_ptr<ReplayNotes> notes_;
  uint64_t kernels_ = 0;
  uint64_t bytes_moved_ = 0;
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
