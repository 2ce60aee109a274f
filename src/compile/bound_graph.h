#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/stream.h"
#include "ops/op_def.h"
#include "ops/update_recorder.h"
#include "tensor/tensor.h"

namespace reprise::compile {

/// A graph with every tensor in its place: what runs node by node, and what is captured. Stays where it is, because
/// update records refer to its nodes.
class BoundGraph {
 public:
  /// One launchable operator call; views are gone.
  struct Node {
    const ops::OpDef* op = nullptr;
    const ops::OpKernel* kernel = nullptr;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<int32_t> list_indices;  ///< into the step's host lists
    std::vector<ops::Attribute> attributes;
    Tensor workspace;
    std::vector<ops::HostList> lists;  ///< scratch: the node's own host lists of the current call
    ops::Tiling tiling;                ///< scratch

    /// Plans (where the operator is host-tiled) and launches. Allocates nothing in steady state.
    void issue(device::Stream& stream, std::span<const ops::HostList> step_lists);
  };

  BoundGraph(std::vector<Node> nodes, std::vector<Tensor> outputs)
      : nodes_(std::move(nodes)), outputs_(std::move(outputs)) {}
  BoundGraph(const BoundGraph&) = delete;
  BoundGraph& operator=(const BoundGraph&) = delete;

  /// Launches every node in order. `lists`: the host lists of the step, in the graph's order. With a recorder (during
  /// capture) each host-tiled node becomes a task group and leaves an update record.
  void run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder = nullptr) {
    run(stream, lists, recorder, 0, size());
  }
  /// The same for the nodes [first, last).
  void run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder, int64_t first,
           int64_t last);

  /// Views into the arena; overwritten by the next run that shares it.
  std::span<const Tensor> outputs() const { return outputs_; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  const std::string& op_name(int64_t node) const { return nodes_[static_cast<size_t>(node)].op->name(); }

 private:
  std::vector<Node> nodes_;
  std::vector<Tensor> outputs_;
};

}  // namespace reprise::compile
