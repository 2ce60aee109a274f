#pragma once

#include <source_location>

#include "compile/trace_method.h"
#include "graph/graph.h"

namespace reprise::api {

/// A graph seen as a method: its inputs are the tensor arguments, its host lists come behind them.
compile::MethodSpec spec_of(const graph::Graph& graph, std::source_location where);

/// The same as a trace whose guards are what the graph's inputs must be. Throws kInvalidArgument for a graph with
/// parameters that are not bound to memory, or with a symbol that no input's size or list's length gives.
compile::TracedMethod traced_of(graph::Graph graph, const compile::MethodSpec& spec);

}  // namespace reprise::api
