#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "ops/registry.h"

namespace reprise::graph {

/// A sound graph of about `nodes` nodes of make_test_operators(), the same for the same seed everywhere: views, writes,
/// absent arguments, all kinds of attributes, odd names.
Graph random_graph(const ops::Registry& registry, uint32_t seed, int nodes);

}  // namespace reprise::graph
