#include "compile/placement.h"

#include <algorithm>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"

namespace reprise::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool is_cat(const Node& node) { return node.op->name() == "cat"; }

std::string argument_hazard(const Graph& graph, const Node& cat, NodeId cat_id, ValueId argument) {
  const graph::Value& value = graph.value(argument);
  if (value.kind != graph::ValueKind::kNodeOutput || value.root != argument) {
    return fmt::format("%{} is not a result of its own", value.name);
  }
  if (std::count(cat.inputs.begin(), cat.inputs.end(), argument) > 1) return fmt::format("%{} comes twice", value.name);
  if (!value.meta.is_contiguous()) return fmt::format("%{} is {}", value.name, value.meta.to_string());
  if (is_placed_cat(graph.node(value.producer))) return fmt::format("%{} is made of placed parts itself", value.name);
  for (const NodeId id : graph.order()) {
    const Node& other = graph.node(id);
    if (id == cat_id || !is_placed_cat(other)) continue;
    if (std::find(other.inputs.begin(), other.inputs.end(), argument) != other.inputs.end()) {
      return fmt::format("%{} is also placed in %{}", value.name, graph.value(other.outputs[0]).name);
    }
  }
  return "";
}

/// Writes that copies would keep apart.
std::string write_hazard(const Graph& graph, const Node& cat, NodeId cat_id) {
  const ValueId result = cat.outputs[0];
  bool result_written = false;
  for (size_t i = graph.position(cat_id) + 1; i < graph.order().size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    for (const ValueId argument : cat.inputs) {
      if (argument == graph::kAbsent) continue;
      const std::string& name = graph.value(argument).name;
      if (graph::writes(graph, node, argument)) {
        return fmt::format("{} overwrites %{} behind it", graph::describe(node), name);
      }
      const auto looks_at = [&](ValueId id) { return id != graph::kAbsent && graph.value(id).root == argument; };
      if (result_written && std::any_of(node.inputs.begin(), node.inputs.end(), looks_at)) {
        return fmt::format("{} uses %{} after the result is overwritten", graph::describe(node), name);
      }
    }
    result_written = result_written || graph::writes(graph, node, result);
  }
  if (result_written && !graph.streams().empty()) {
    return "the result is overwritten, and other streams may use an argument meanwhile";
  }
  const auto returned = [&](ValueId output) {
    return std::find(cat.inputs.begin(), cat.inputs.end(), graph.value(output).root) != cat.inputs.end();
  };
  if (result_written && std::any_of(graph.outputs().begin(), graph.outputs().end(), returned)) {
    return "an argument is returned after the result is overwritten";
  }
  return "";
}

}  // namespace

bool is_placed_cat(const Node& node) { return is_cat(node) && std::get<bool>(node.attributes[1]); }

std::string placement_hazard(const Graph& graph, NodeId node) {
  const Node& cat = graph.node(node);
  if (!is_cat(cat)) return fmt::format("{} is no cat", cat.op->name());
  const int64_t axis = std::get<int64_t>(cat.attributes[0]);
  if (axis != 0) return fmt::format("it is along axis {}", axis);
  if (cat.inputs.size() < 2 || cat.inputs[1] == graph::kAbsent) return "it has one argument";
  for (const ValueId argument : cat.inputs) {
    if (argument == graph::kAbsent) continue;
    std::string hazard = argument_hazard(graph, cat, node, argument);
    if (!hazard.empty()) return hazard;
  }
  return write_hazard(graph, cat, node);
}

std::vector<std::optional<Placement>> placements(const Graph& graph) {
  std::vector<std::optional<Placement>> result(graph.value_limit());
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_placed_cat(node) || !placement_hazard(graph, id).empty()) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != graph::kAbsent) result[static_cast<size_t>(node.inputs[i])] = Placement{id, i};
    }
  }
  return result;
}

}  // namespace reprise::compile
