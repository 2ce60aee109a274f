#include "compile/passes/remove_noop_ops.h"

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"

namespace reprise::compile {
namespace {

bool is_noop(const graph::Graph& graph, const graph::Node& node) {
  const std::string& op = node.op->name();
  if (op == "cat") {
    if (node.inputs[1] != graph::kAbsent) return false;
  } else if (op != "reshape" && op != "slice" && op != "transpose" && op != "cast" && op != "copy") {
    return false;
  }
  return graph.value(node.inputs[0]).meta == graph.value(node.outputs[0]).meta;
}

/// Why the input must not take the output's place, or "".
std::string refusal(const graph::Graph& graph, graph::ValueId input, graph::ValueId output) {
  const graph::ValueKind kind = graph.value(graph.value(input).root).kind;
  if (graph.is_output(output) && (kind != graph::ValueKind::kNodeOutput || graph.is_output(input))) {
    return "an output of the graph would share the memory of another value";
  }
  return graph::replace_hazard(graph, output, input);
}

}  // namespace

PassResult remove_noop_ops(graph::Graph& graph) {
  PassResult result;
  const std::vector<graph::NodeId> nodes = graph.order();
  for (const graph::NodeId id : nodes) {
    const graph::Node& node = graph.node(id);
    if (!is_noop(graph, node)) continue;
    const graph::ValueId input = node.inputs[0];
    const graph::ValueId output = node.outputs[0];
    const std::string reason = refusal(graph, input, output);
    if (!reason.empty()) {
      result.refusals.push_back(fmt::format("{}: {}", graph::describe(node), reason));
      continue;
    }
    graph.replace_uses(output, input);
    graph.erase_node(id);
    ++result.matches;
  }
  return result;
}

}  // namespace reprise::compile
