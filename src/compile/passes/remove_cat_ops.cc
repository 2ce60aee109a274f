#include "compile/passes/remove_cat_ops.h"

#include "base/error.h"
#include "compile/placement.h"
#include "graph/infer.h"

namespace reprise::compile {

PassResult remove_cat_ops(graph::Graph& graph) {
  PassResult result;
  for (const graph::NodeId id : graph.order()) {
    graph::Node& node = graph.mutable_node(id);
    if (node.op->name() != "cat" || is_placed_cat(node)) continue;
    const std::string hazard = placement_hazard(graph, id);
    if (hazard.empty()) {
      constexpr size_t kPlaced = 1;
      node.attributes[kPlaced] = true;
      ++result.matches;
    } else {
      result.refusals.push_back(fmt::format("{}: {}", graph::describe(node), hazard));
    }
  }
  return result;
}

}  // namespace reprise::compile
