#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace reprise::graph {

/// A hash of what a graph computes: symbols, metadata, labels of parameters, operators, attributes, wiring, streams,
/// core limits and results. Names of values, streams and of the graph, ids, source lines and the memory behind
/// parameters do not enter. The same on every machine.
uint64_t structural_hash(const Graph& graph);

}  // namespace reprise::graph
