#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/capture_budget.h"
#include "graph/graph.h"

namespace reprise::replay {

/// What capturing a graph for each of these sizes takes on a device: cut at `splitting_ops`, with a gate in front of
/// each task group (`gated`) or without.
device::CaptureDemand capture_demand(const graph::Graph& graph, std::string_view device,
                                     std::span<const std::string> splitting_ops, bool gated,
                                     std::vector<int32_t> sizes);

}  // namespace reprise::replay
