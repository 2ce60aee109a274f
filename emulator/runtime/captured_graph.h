// A graph: what a capture (or a build by hand) yields, and a replay runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "emulator/runtime/device_owner.h"
#include "emulator/runtime/graph_node.h"
#include "emulator/runtime/handle_table.h"
#include "emulator/runtime/task.h"

namespace reprise::emulator {

class Capture;
class Condition;
class Device;
class Event;
class TaskGroup;

/// Guarded by Runtime::mutex().
class CapturedGraph : public std::enable_shared_from_this<CapturedGraph> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kGraph;

  enum class State { kCapturing, kBuilding, kReady, kFault };

  CapturedGraph(Device& owner, int32_t number) : device(owner), id(number) {}

  /// A new inner stream, with the queue that it needs. 207008 without one.
  Status add_stream(int32_t user_stream, InnerStream** stream);
  /// Puts a task at the end of a line; chains a new queue to it when it is long. 207005 without one.
  Status append(InnerStream& stream, TaskPointer task, std::shared_ptr<GraphNode>* node = nullptr);
  /// An edge from a record to waits, with the event that devices use for it. 207007 without one.
  Status add_edge(size_t* edge);
  /// What a finished graph needs beside its streams: 207009 without a notify, 207005 without a queue.
  Status set_up();
  /// Counts it among the graphs of its device, which took one already.
  void hold_model() { model_held_ = true; }
  /// Gives back all that it holds.
  void release_resources();

  uint32_t queues() const;
  size_t node_count() const { return next_sequence_; }
  size_t edge_count() const { return edges_; }

  Device& device;
  const std::shared_ptr<Device> device_owner = owner_of(device);
  const int32_t id;
  void* handle = nullptr;
  std::string name;
  State state = State::kCapturing;
  bool by_hand = false;
  std::vector<std::unique_ptr<InnerStream>> streams;  // the origin's first
  std::vector<std::shared_ptr<TaskGroup>> groups;
  std::vector<std::pair<aclrtCallback, void*>> destroy_callbacks;

  /// Events that the external flags brought in: a replay binds each when it is launched.
  std::vector<std::shared_ptr<Event>> external_events;

  std::vector<std::shared_ptr<Condition>> conditions;
  CapturedGraph* parent = nullptr;  // of a graph inside a conditional task
  std::vector<std::weak_ptr<CapturedGraph>> children;
  std::weak_ptr<Capture> capture;  // while it is recorded

  std::atomic<int32_t> launches = 0;  // submitted and not over
  bool active = false;                // a replay is inside
  bool abort_requested = false;       // of the launches there are

 private:
  uint32_t next_sequence_ = 0;
  size_t edges_ = 0;
  uint32_t streams_held_ = 0;
  uint32_t events_held_ = 0;
  uint32_t notifies_held_ = 0;
  bool model_held_ = false;
};

/// The graph behind a handle. 100000 for null, 107000 for what is none.
Status find_graph(aclmdlRI handle, std::shared_ptr<CapturedGraph>& graph);
/// Makes a graph with a handle. 207010 when the device holds no more.
Status make_graph(Device& device, std::shared_ptr<CapturedGraph>& graph);
/// Removes it, its groups, tasks and children from what handles know, and gives back what it holds.
void release_graph(CapturedGraph& graph);

}  // namespace reprise::emulator
