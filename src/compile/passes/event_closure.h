#pragma once

#include "compile/pass.h"
#include "ops/registry.h"

namespace reprise::compile {

/// Lets every side stream that is used begin behind the start of the method's own stream and lets that one wait for it
/// in the end: what makes a capture of several streams legal, and a run of them end with the method's stream. Without
/// it a graph with side streams cannot run. Matches are streams.
PassResult event_closure(graph::Graph& graph, const ops::Registry& registry);

/// Why a graph cannot run yet: a side stream is not forked or not joined, or a core limit is not lowered. "" if it can.
std::string lowering_fault(const graph::Graph& graph);

}  // namespace reprise::compile
