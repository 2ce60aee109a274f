#include "emulator/runtime/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/runtime/capture.h"
#include "emulator/runtime/condition.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/event.h"
#include "emulator/runtime/kernel_task.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"

namespace reprise::emulator {

Replay::Replay(CapturedGraph& graph, const ExternalBindings& bindings, Replay* outer)
    : graph_(graph), bindings_(bindings), outer_(outer), edges_(graph.edge_count()), orders_(graph.edge_count()) {}

Status Replay::run(TaskContext& context) {
  Runtime& runtime = Runtime::instance();
  TaskContext inside = context;
  inside.replay = this;
  for (size_t i = 1; i < graph_.streams.size(); ++i) {
    {
      const Lock lock(runtime.mutex());
      ++beside_;
    }
    const InnerStream* line = graph_.streams[i].get();
    TaskContext beside = inside;
    lines_.push_back(Validation::instance().fork(context.line));
    beside.line = lines_.back().get();
    runtime.threads().start([this, line, beside] { run_beside(*line, beside); });
  }
  run_line(*graph_.streams.front(), inside);
  Lock lock(runtime.mutex());
  runtime.progress().wait(lock, [&] { return beside_ == 0; });
  context.clock = std::max({context.clock, inside.clock, clock_});
  for (std::unique_ptr<OrderLine>& line : lines_) Validation::instance().join(context.line, std::move(line));
  return failure_;
}

void Replay::run_line(const InnerStream& line, TaskContext& context) {
  Runtime& runtime = Runtime::instance();
  for (size_t i = 0;; ++i) {
    TaskPointer task;
    {
      // The task is read when the line gets there: an update that came before counts, a later one does not.
      const Lock lock(runtime.mutex());
      if (i >= line.nodes.size() || context.aborted()) return;
      if (line.nodes[i]->disabled) continue;
      task = line.nodes[i]->task;
      count(*task);
      Validation::instance().node_runs(*line.nodes[i], *task, notes(), context.line);
    }
    Status status = execute(*task, context);
    if (status.ok()) continue;
    const Lock lock(runtime.mutex());
    if (failure_.ok()) {
      failure_ = Status(status.code, fmt::format("graph {}: task {}, {}: {}", graph_.id, line.nodes[i]->sequence,
                                                 task->describe(), status.text));
    }
    runtime.progress().notify_all();
    return;
  }
}

void Replay::run_beside(const InnerStream& line, TaskContext context) {
  run_line(line, context);
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  clock_ = std::max(clock_, context.clock);
  --beside_;
  runtime.progress().notify_all();
}

void Replay::count(const Task& task) {
  if (task.kind() != TaskKind::kKernel) return;
  // A graph inside a conditional task counts for the one that was launched.
  if (outer_) return outer_->count(task);
  const KernelCost& cost = static_cast<const KernelTask&>(task).cost();
  ++kernels_;
  bytes_moved_ += cost.bytes_read + cost.bytes_written;
}

void Replay::pass(size_t edge, double clock, OrderPointer order) {
  edges_[edge] = clock;
  orders_[edge] = std::move(order);
  Runtime::instance().progress().notify_all();
}

uint64_t Replay::binding(const Event& event) const {
  const auto bound = bindings_.find(&event);
  return bound == bindings_.end() ? 0 : bound->second;
}

ReplayTask::ReplayTask(std::shared_ptr<CapturedGraph> graph, ExternalBindings bindings)
    : graph_(std::move(graph)), bindings_(std::move(bindings)) {
  ++graph_->launches;
}

ReplayTask::~ReplayTask() { --graph_->launches; }

Status ReplayTask::run(TaskContext& context) const {
  Runtime& runtime = Runtime::instance();
  Lock lock(runtime.mutex());
  ResourceCounter& queues = context.device.software_queues;
  const uint32_t needed = context.device.profile.features.software_sq ? graph_->queues() : 0;
  // One run at a time of a graph, and no more graphs at once than queues can serve.
  const auto ready = [&] { return !graph_->active && queues.available() >= needed; };
  if (context.wait(lock, ready) == TaskContext::Wait::kAborted) {
    return Status(ACL_ERROR_RT_STREAM_ABORT, "a replay was aborted");
  }
  graph_->active = true;
  (void)queues.take(needed);
  for (const std::shared_ptr<Condition>& condition : graph_->conditions) condition->assign_default();
  lock.unlock();
  Validation& validation = Validation::instance();
  Replay replay(*graph_, bindings_, context.replay);
  if (!context.replay) replay.keep(validation.replay_began(*graph_, *this, context.line));
  const double start = context.clock;
  Status status = replay.run(context);
  validation.replay_ended(replay.take_notes(), context.line);
  lock.lock();
  if (!context.replay) {
    context.device.statistics.account.graphs[graph_->id].add_replay(replay.kernels(), replay.bytes_moved(),
                                                                    context.clock - start);
  }
  queues.give_back(needed);
  graph_->active = false;
  runtime.progress().notify_all();
  if (status.ok() && (context.aborted() || std::exchange(graph_->abort_requested, false)))
    status = Status(ACL_ERROR_RT_STREAM_ABORT, "a replay was aborted");
  return status;
}

double ReplayTask::account(const Profile& /*profile*/, bool /*in_graph*/, DeviceStatistics& /*statistics*/) const {
  return 0;  // its tasks accounted for themselves
}

std::string ReplayTask::describe() const { return fmt::format("replay of graph {}", graph_->id); }

Status launch_graph(const std::shared_ptr<CapturedGraph>& graph, Stream& stream) {
  if (graph->state == CapturedGraph::State::kCapturing) {
    return Status(ACL_ERROR_RT_MODEL_CAPTURED, fmt::format("graph {} is still being captured", graph->id));
  }
  if (Status status = refuse_capturing(stream); !status.ok()) return status;
  if (graph->state != CapturedGraph::State::kReady || graph->streams.empty()) {
    return Status(ACL_ERROR_RT_MODEL_EXECUTE, fmt::format("graph {} is not ready to run", graph->id));
  }
  Device& device = stream.device();
  if (!device.error().ok()) return device.error();
  if (stream.update) {
    return Status(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a graph cannot be launched inside a task update");
  }
  if (device.profile.features.software_sq && graph->queues() > device.software_queues.limit()) {
    return Status(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                  fmt::format("graph {} needs {} queues, and device {} has {}", graph->id, graph->queues(), device.id,
                              device.software_queues.limit()));
  }
  ExternalBindings bindings;
  for (const std::shared_ptr<Event>& event : graph->external_events) {
    // A record is a new occurrence for every launch; a wait means the newest one that was recorded outside.
    bindings[event.get()] = event->direction == Event::Direction::kRecord ? event->submit_record()
                            : event->has_record()                         ? event->recorded
                                                                          : 0;
  }
  ++device.statistics.replays;
  auto task = std::make_shared<ReplayTask>(graph, std::move(bindings));
  Validation::instance().replay_submitted(*graph, *task);
  stream.enqueue(std::move(task), device.profile.timing.host_replay);
  return {};
}

}  // namespace reprise::emulator
