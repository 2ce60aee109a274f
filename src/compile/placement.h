#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace reprise::compile {

// A cat along axis 0 that is marked `placed` asks for its arguments to be made where they lie in its result, so that
// nothing is left to copy. The mark changes no value and no alias of the graph: an executable follows it in its memory
// plan, and launches the copy after all where a hazard has come up since.

/// A value's place in the result of a cat.
struct Placement {
  graph::NodeId cat = graph::kNoNode;
  size_t argument = 0;
};

bool is_placed_cat(const graph::Node& node);

/// Why the arguments of a node cannot be made in its result: it is no cat along axis 0 of several tensors, an argument
/// is not a result of its own (but a graph input, a parameter or a view), comes twice, or already lies elsewhere, or an
/// argument or the result is overwritten while the other is in use. "" if they can.
std::string placement_hazard(const graph::Graph& graph, graph::NodeId node);

/// By value id: where values lie because of cats that are marked and have no hazard.
std::vector<std::optional<Placement>> placements(const graph::Graph& graph);

}  // namespace reprise::compile
