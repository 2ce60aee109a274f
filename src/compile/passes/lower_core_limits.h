#pragma once

#include "compile/pass.h"
#include "ops/registry.h"

namespace reprise::compile {

/// Turns the core limits of nodes into set_core_limit nodes, one where the limit of a stream's launches changes, and
/// one that gives the outer limit back behind the last of them. Matches are changes to a limit.
PassResult lower_core_limits(graph::Graph& graph, const ops::Registry& registry);

}  // namespace reprise::compile
