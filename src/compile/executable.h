#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/bound_graph.h"
#include "compile/memory_plan.h"
#include "compile/placement.h"
#include "graph/graph.h"

namespace reprise::compile {

/// A graph that is ready to run on a kind of device: checked for kernels, its intermediates laid out for the largest
/// step. Holds no capture state; any number of captures may be made from it.
class Executable {
 public:
  /// `device`: the name that kernels are registered under. `max_symbols`: the largest value of each symbol. Throws
  /// kUnsupported listing every operator that the device has no kernel for, or naming one whose result the device lays
  /// out; kInvalidArgument for symbols outside of the graph's ranges; kFailedPrecondition for streams and core limits
  /// that were not lowered (PassManager::lowering()).
  Executable(graph::Graph graph, std::string_view device, std::vector<int64_t> max_symbols);

  const graph::Graph& graph() const { return graph_; }
  /// Size that an arena must have for bind(), whatever the symbols: offsets are those of the largest step.
  size_t arena_bytes() const { return plan_.bytes; }
  const MemoryPlan& memory_plan() const { return plan_; }

  /// The graph for given sizes: `symbols` one value each, `inputs` in the graph's order (of the shapes that the symbols
  /// give), intermediates in `arena`. Parameters are those that the graph was traced with.
  std::unique_ptr<BoundGraph> bind(std::span<const int64_t> symbols, const std::shared_ptr<Storage>& arena,
                                   std::span<const Tensor> inputs) const;

 private:
  void plan();
  std::vector<Tensor> tensors_for(std::span<const int64_t> symbols, const std::shared_ptr<Storage>& arena,
                                  std::span<const Tensor> inputs) const;
  /// Bytes from the start of a value's interval to it.
  size_t offset_in_interval(graph::ValueId value, std::span<const int64_t> symbols) const;
  ops::OpCall call_of(const graph::Node& node, std::span<const int64_t> symbols, std::span<const Tensor> values,
                      std::vector<Tensor>& inputs, std::vector<ops::HostList>& lists,
                      std::vector<ops::Attribute>& attributes) const;

  graph::Graph graph_;
  std::string device_;
  std::vector<int64_t> max_symbols_;
  MemoryPlan plan_;
  std::vector<int32_t> value_interval_;  ///< by value id; -1 when the value does not lie in the arena itself
  std::vector<std::optional<Placement>> placements_;  ///< by value id
  std::vector<int32_t> workspace_interval_;           ///< by node id
  std::vector<size_t> workspace_bytes_;               ///< by node id
};

}  // namespace reprise::compile
