#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/launch_labels.h"
#include "ops/op_def.h"
#include "ops/update_recorder.h"
#include "tensor/tensor.h"

namespace reprise::compile {

/// A graph with every tensor in its place: what runs node by node, and what is captured. Stays where it is, because
/// update records refer to its nodes. Side streams and events are made on the device when it first runs.
class BoundGraph {
 public:
  enum class Kind : uint8_t {
    kLaunch,
    kRecord,     ///< marks an event on the node's stream
    kWait,       ///< the node's stream waits for an event
    kCoreLimit,  ///< limits later launches of the node's stream
  };

  /// One launchable operator call, or what stands between them; views are gone.
  struct Node {
    const ops::OpDef* op = nullptr;
    Kind kind = Kind::kLaunch;
    int32_t lane = 0;              ///< 0: the one that the graph is run on
    int32_t event = -1;            ///< of kRecord and kWait: which one of the graph's
    device::CoreLimit core_limit;  ///< of kCoreLimit; zeros: the limit that the graph's stream had outside
    std::string source;            ///< of kCoreLimit: the line of model code that it comes from
    const ops::OpKernel* kernel = nullptr;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<int32_t> list_indices;  ///< into the step's host lists
    std::vector<ops::Attribute> attributes;
    Tensor workspace;
    std::vector<ops::HostList> lists;  ///< scratch: the node's own host lists of the current call
    ops::Tiling tiling;                ///< scratch

    /// Plans (where the operator is host-tiled) and launches. Allocates nothing in steady state.
    void issue(device::Stream& stream, std::span<const ops::HostList> step_lists) {
      plan(step_lists);
      launch(stream);
    }
    /// The two halves of it; the lists must last until the launch.
    void plan(std::span<const ops::HostList> step_lists);
    void launch(device::Stream& stream);
  };

  /// `side_streams`: their names; nodes of lane n are on the n-th, from 1. `events`: how many there are.
  BoundGraph(std::vector<Node> nodes, std::vector<Tensor> outputs, std::vector<std::string> side_streams = {},
             size_t events = 0);
  ~BoundGraph();
  BoundGraph(const BoundGraph&) = delete;
  BoundGraph& operator=(const BoundGraph&) = delete;

  /// Launches every node in order. `lists`: the host lists of the step, in the graph's order. With a recorder (during
  /// capture) each host-tiled node becomes a task group and leaves an update record, which re-issues it under the core
  /// limit that it was captured with. Side streams take part in a capture of `stream`. Launches outside of all core
  /// limits of the graph have that of `stream`, which has its own again when this returns or throws. Throws
  /// kInvalidArgument for a limit above the device's cores. After an error, outside of a capture, `stream` waits for
  /// what the side streams have queued by then.
  void run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder = nullptr) {
    run(stream, lists, recorder, 0, size());
  }
  /// The same for the nodes [first, last). Throws kUnsupported for a part of a graph with side streams: they could not
  /// be joined where it is cut.
  void run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder, int64_t first,
           int64_t last);

  /// Launches that are captured, or run while the device is observed, carry these labels. Must outlive the graph.
  void set_labels(ops::LaunchLabels& labels) { labels_ = &labels; }

  /// Views into the arena; overwritten by the next run that shares it.
  std::span<const Tensor> outputs() const { return outputs_; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  const std::string& op_name(int64_t node) const { return nodes_[static_cast<size_t>(node)].op->name(); }

 private:
  void run_launch(Node& node, device::Stream& stream, std::span<const ops::HostList> lists,
                  ops::UpdateRecorder* recorder);
  void declare_accesses(const Node& node, device::Stream& stream);
  void run_nodes(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder,
                 int64_t first, int64_t last, device::CoreLimit outer);
  static void record_group(Node& node, device::Stream& stream, std::span<const ops::HostList> lists,
                           ops::UpdateRecorder& recorder);
  void set_core_limit(const Node& node, device::Stream& stream, device::CoreLimit outer);
  void join_after_failure(device::Stream& stream);
  void prepare_streams(device::Stream& stream, device::CoreLimit outer);
  device::Stream& stream_of(const Node& node, device::Stream& stream) {
    return node.lane == 0 ? stream : *side_streams_[static_cast<size_t>(node.lane) - 1];
  }

  std::vector<Node> nodes_;
  std::vector<Tensor> outputs_;
  std::vector<std::string> side_stream_names_;
  size_t event_count_;
  bool has_limits_ = false;
  ops::LaunchLabels* labels_ = nullptr;
  std::vector<device::MemoryAccess> accesses_;  ///< scratch
  std::vector<std::unique_ptr<device::Stream>> side_streams_;
  std::vector<std::unique_ptr<device::Event>> events_;
};

}  // namespace reprise::compile
