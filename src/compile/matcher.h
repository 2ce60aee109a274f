#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compile/pattern_context.h"
#include "graph/graph.h"

namespace reprise::compile {

/// Which parts of a graph a pattern's parts are.
struct Binding {
  std::vector<graph::ValueId> values;                  ///< by value id of the pattern
  std::vector<graph::NodeId> nodes;                    ///< by node id of the pattern
  std::vector<std::optional<ops::Attribute>> scalars;  ///< captured ones, in the order of their declaration
};

/// Finds places in a graph that have the operators and the wiring of a pattern. Attributes that are computed from
/// shapes (shapes, integers, dtypes) are left to a second look, with the pattern traced for the place; other literal
/// ones must be equal. The arguments of commutative operators match in either order.
class Matcher {
 public:
  /// All must outlive the matcher.
  Matcher(const graph::Graph& pattern, std::span<const PatternScalar> scalars, const graph::Graph& graph)
      : pattern_(pattern), scalars_(scalars), graph_(graph) {}

  /// Calls `accept` for each way to match with the pattern's last node at `root`, until it returns true or kMaxWays
  /// were tried. Returns whether one was accepted.
  bool match(graph::NodeId root, const std::function<bool(const Binding&)>& accept);

  static constexpr int kMaxWays = 64;

 private:
  /// Pairs of nodes that must be each other's.
  using Agenda = std::vector<std::pair<graph::NodeId, graph::NodeId>>;

  bool extend(Binding binding, Agenda agenda);
  bool extend_forward(const Binding& binding);
  bool bind_node(Binding& binding, graph::NodeId pattern, graph::NodeId node) const;
  bool bind_attributes(Binding& binding, const graph::Node& pattern, const graph::Node& node) const;
  bool bind_value(Binding& binding, Agenda& agenda, graph::ValueId pattern, graph::ValueId value) const;
  bool bind_inputs(Binding& binding, Agenda& agenda, const graph::Node& pattern, const graph::Node& node,
                   bool swapped) const;

  const graph::Graph& pattern_;
  std::span<const PatternScalar> scalars_;
  const graph::Graph& graph_;
  const std::function<bool(const Binding&)>* accept_ = nullptr;
  int ways_ = 0;
};

}  // namespace reprise::compile
