#include "compile/passes/eliminate_dead_code.h"

#include <algorithm>

namespace reprise::compile {
namespace {

bool has_effect(const graph::Node& node) {
  if (node.op->traits().control) return true;
  const auto& tensors = node.op->schema().tensors;
  return std::any_of(tensors.begin(), tensors.end(), [](const ops::TensorSpec& spec) { return spec.mutated; });
}

}  // namespace

PassResult eliminate_dead_code(graph::Graph& graph) {
  std::vector<bool> live(graph.value_limit(), false);
  for (const graph::ValueId output : graph.outputs()) live[static_cast<size_t>(output)] = true;
  std::vector<graph::NodeId> dead;
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const graph::Node& node = graph.node(*id);
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](graph::ValueId output) { return live[static_cast<size_t>(output)]; });
    if (!used && !has_effect(node)) {
      dead.push_back(*id);
      continue;
    }
    for (const graph::ValueId input : node.inputs) {
      if (input != graph::kAbsent) live[static_cast<size_t>(input)] = true;
    }
  }
  graph.erase_nodes(dead);
  const std::vector<graph::ValueId> parameters = graph.parameters();
  for (const graph::ValueId parameter : parameters) {
    if (!live[static_cast<size_t>(parameter)]) graph.erase_parameter(parameter);
  }
  return {static_cast<int64_t>(dead.size()), {}};
}

}  // namespace reprise::compile
