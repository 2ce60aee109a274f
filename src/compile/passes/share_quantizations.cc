#include "compile/passes/share_quantizations.h"

#include <fmt/core.h>

#include <map>
#include <string>
#include <utility>

#include "graph/alias.h"
#include "graph/infer.h"

namespace reprise::compile {
namespace {

/// Why one node's results cannot be another's, which computes the same earlier; or "".
std::string hazard(const graph::Graph& graph, graph::NodeId later, graph::NodeId earlier) {
  const graph::Node& node = graph.node(later);
  const graph::Node& kept = graph.node(earlier);
  if (node.inputs != kept.inputs) return "it has other scales than the first one";
  if (node.stream != kept.stream || !(node.core_limit == kept.core_limit)) {
    return "the first one runs on another stream or with another core limit";
  }
  for (const graph::ValueId output : node.outputs) {
    if (graph.is_output(output)) return fmt::format("%{} is an output of the graph", graph.value(output).name);
  }
  // Whatever could not run in the earlier one's place does not see the same input.
  std::string reason = graph::move_hazard(graph, later, earlier);
  for (size_t i = 0; reason.empty() && i < kept.outputs.size(); ++i) {
    reason = graph::replace_hazard(graph, node.outputs[i], kept.outputs[i]);
  }
  return reason;
}

}  // namespace

PassResult share_quantizations(graph::Graph& graph) {
  PassResult result;
  // The first quantisation of each value by each operator.
  std::map<std::pair<std::string, graph::ValueId>, graph::NodeId> first;
  const std::vector<graph::NodeId> nodes = graph.order();
  for (const graph::NodeId id : nodes) {
    const graph::Node& node = graph.node(id);
    const std::string& op = node.op->name();
    if (op != "quantize" && op != "dynamic_quantize") continue;
    const auto [place, is_new] = first.emplace(std::pair(op, node.inputs[0]), id);
    if (is_new) continue;
    const std::string reason = hazard(graph, id, place->second);
    if (!reason.empty()) {
      result.refusals.push_back(fmt::format("{}: {}", graph::describe(node), reason));
      continue;
    }
    const graph::Node& kept = graph.node(place->second);
    for (size_t i = 0; i < node.outputs.size(); ++i) graph.replace_uses(node.outputs[i], kept.outputs[i]);
    graph.erase_node(id);
    ++result.matches;
  }
  return result;
}

}  // namespace reprise::compile
