#include "graph/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise::graph {

std::string Statistics::to_string() const {
  std::string text = fmt::format("{} nodes ({} views, {} mutating), {} inputs, {} parameters, {} host lists\n", nodes,
                                 views, mutating, inputs, parameters, lists);
  std::vector<std::pair<std::string, size_t>> sorted(operators.begin(), operators.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, count] : sorted) text += fmt::format("{:>7} {}\n", count, name);
  return text;
}

Statistics statistics(const Graph& graph) {
  Statistics result;
  result.inputs = graph.inputs().size();
  result.parameters = graph.parameters().size();
  result.lists = graph.lists().size();
  for (const NodeId id : graph.order()) {
    const ops::OpDef& op = *graph.node(id).op;
    ++result.nodes;
    ++result.operators[op.name()];
    if (op.traits().view) ++result.views;
    const auto& specs = op.schema().tensors;
    if (std::any_of(specs.begin(), specs.end(), [](const auto& spec) { return spec.mutated; })) ++result.mutating;
  }
  return result;
}

}  // namespace reprise::graph
