#include "compile/passes/lower_core_limits.h"

#include <algorithm>

#include "graph/stream_order.h"

namespace reprise::compile {
namespace {

graph::NodeArguments set_limit(device::CoreLimit limit, const graph::Node& node) {
  graph::NodeArguments arguments;
  arguments.attributes =
      std::vector<ops::Attribute>{static_cast<int64_t>(limit.matrix_cores), static_cast<int64_t>(limit.vector_cores)};
  arguments.source = node.source;
  arguments.stream = node.stream;
  return arguments;
}

}  // namespace

PassResult lower_core_limits(graph::Graph& graph, const ops::Registry& registry) {
  PassResult result;
  const std::vector<graph::NodeId> nodes = graph.order();
  const bool limited = std::any_of(nodes.begin(), nodes.end(), [&](graph::NodeId id) {
    return !(graph.node(id).core_limit == device::CoreLimit{});
  });
  if (!limited) return result;
  const ops::OpDef& set = registry.get(graph::kSetCoreLimit);
  std::vector<device::CoreLimit> now(graph.streams().size() + 1);
  std::vector<graph::NodeId> last(now.size(), graph::kNoNode);
  for (const graph::NodeId id : nodes) {
    const graph::Node node = graph.node(id);  // a copy: nodes are added below
    graph.mutable_node(id).core_limit = {};
    // Views and events launch nothing.
    if (node.op->traits().view || node.op->traits().control) continue;
    const size_t stream = static_cast<size_t>(node.stream);
    if (!(node.core_limit == now[stream])) {
      graph.insert_before(id, set, set_limit(node.core_limit, node));
      now[stream] = node.core_limit;
      if (!(node.core_limit == device::CoreLimit{})) ++result.matches;
    }
    last[stream] = id;
  }
  for (size_t stream = 0; stream < now.size(); ++stream) {
    if (now[stream] == device::CoreLimit{}) continue;
    const graph::Node node = graph.node(last[stream]);
    const size_t behind = graph.position(last[stream]) + 1;
    if (behind == graph.order().size()) {
      graph.add_node(set, set_limit({}, node));
    } else {
      graph.insert_before(graph.order()[behind], set, set_limit({}, node));
    }
  }
  return result;
}

}  // namespace reprise::compile
