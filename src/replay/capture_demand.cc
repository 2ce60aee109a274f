#include "replay/capture_demand.h"

#include <algorithm>

namespace reprise::replay {

device::CaptureDemand capture_demand(const graph::Graph& graph, std::string_view device,
                                     std::span<const std::string> splitting_ops, bool gated,
                                     std::vector<int32_t> sizes) {
  device::CaptureDemand demand;
  demand.sizes = std::move(sizes);
  demand.streams = static_cast<int64_t>(graph.streams().size()) + 1;
  demand.graphs = 0;
  int64_t actions = 0;  // of the piece so far
  const auto end_piece = [&] {
    // As at capture: nothing between two cuts makes no piece, but one there is always.
    if (actions > 0) ++demand.graphs;
    demand.actions = std::max(demand.actions, actions);
    actions = 0;
  };
  for (const graph::NodeId id : graph.order()) {
    const ops::OpDef& op = *graph.node(id).op;
    if (std::find(splitting_ops.begin(), splitting_ops.end(), op.name()) != splitting_ops.end()) {
      end_piece();
      continue;
    }
    const ops::OpKernel* kernel = op.kernel(device);
    if (kernel == nullptr) continue;  // a view, or a scope
    actions += kernel->launches;
    // The gate is a wait and what sets it back.
    if (op.traits().host_tiled && gated) {
      ++demand.external_events;
      actions += 2;
    }
  }
  end_piece();
  demand.graphs = std::max<int64_t>(demand.graphs, 1);
  return demand;
}

}  // namespace reprise::replay
