#pragma once

#include <string>

#include "graph/graph.h"

namespace reprise::graph {

/// A graph as Graphviz dot: boxes for nodes (dashed for views), ellipses for inputs and host lists, notes for
/// parameters that are used; edges carry metadata. An argument that a node mutates has a red edge in both directions.
std::string to_dot(const Graph& graph);

}  // namespace reprise::graph
