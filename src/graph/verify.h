#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace reprise::graph {

/// Everything that is wrong with a graph, one sentence each; empty for a sound one. Checked are
/// - ids, names, labels: that they exist and occur once; symbols and their ranges;
/// - metadata: symbols in range, sizes, strides, formats, and that a parameter is bound to a tensor of its metadata;
/// - nodes: number and kinds of the arguments, attribute types, results equal to what the shape function says;
/// - order: a value is made before it is used, by the node that it names;
/// - memory: a node does not mutate memory that another of its arguments reads or mutates; a view's plain result lies
///   within what it looks at; the recorded alias roots are right;
/// - streams: that they exist, and what stream_faults() finds.
std::vector<std::string> faults(const Graph& graph);

/// Throws kInternal with the faults, if there are any.
void verify(const Graph& graph);

}  // namespace reprise::graph
