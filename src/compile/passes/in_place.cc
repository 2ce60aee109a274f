#include "compile/passes/in_place.h"

#include <algorithm>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"
#include "graph/stream_order.h"
#include "ops/in_place.h"

namespace reprise::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

const ops::OpDef* variant_of(const ops::Registry& registry, const std::string& device, const Node& node) {
  const ops::OpDef* variant = ops::find_in_place_variant(registry, *node.op);
  if (variant == nullptr || (!device.empty() && variant->kernel(device) == nullptr)) return nullptr;
  return variant;
}

bool touches(const Graph& graph, const Node& node, ValueId root) {
  const auto has_root = [&](ValueId id) { return id != graph::kAbsent && graph.value(id).root == root; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), has_root);
}

bool returns(const Graph& graph, ValueId root) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](ValueId id) { return graph.value(id).root == root; });
}

/// What both passes ask of the operator itself.
std::string argument_hazard(const Graph& graph, const Node& node) {
  const graph::Value& x = graph.value(node.inputs[0]);
  const graph::Value& y = graph.value(node.outputs[0]);
  if (!(x.meta == y.meta)) {
    return fmt::format("%{} is {}, the result {}", x.name, x.meta.to_string(), y.meta.to_string());
  }
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == graph::kAbsent || graph.value(node.inputs[i]).root != x.root) continue;
    return fmt::format("%{} shares memory with %{}", graph.value(node.inputs[i]).name, x.name);
  }
  return "";
}

std::string intermediate_hazard(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const graph::Value& x = graph.value(node.inputs[0]);
  const graph::Value& root = graph.value(x.root);
  if (root.kind != graph::ValueKind::kNodeOutput) {
    return fmt::format("%{} is memory of {}", x.name,
                       root.kind == graph::ValueKind::kInput ? "an input" : "a parameter");
  }
  if (returns(graph, x.root)) return fmt::format("%{} is returned", x.name);
  for (size_t i = graph.position(id) + 1; i < graph.order().size(); ++i) {
    const Node& later = graph.node(graph.order()[i]);
    if (touches(graph, later, x.root)) return fmt::format("{} uses %{} afterwards", graph::describe(later), x.name);
  }
  std::string hazard = graph::cross_stream_hazard(graph, id, id, x.root);
  if (!hazard.empty()) return hazard;
  return argument_hazard(graph, node);
}

/// Puts the variant in the node's place; its first argument takes the place of the result.
void replace_by_variant(Graph& graph, NodeId id, const ops::OpDef& variant) {
  const Node node = graph.node(id);
  graph.insert_before(id, variant, graph::arguments_of(node));
  graph.replace_uses(node.outputs[0], node.inputs[0]);
  graph.erase_node(id);
}

/// Follows reshapes back to what they show.
ValueId behind_reshapes(const Graph& graph, ValueId value) {
  while (graph.value(value).kind == graph::ValueKind::kNodeOutput) {
    const Node& node = graph.node(graph.value(value).producer);
    if (node.op->name() != "reshape") break;
    value = node.inputs[0];
  }
  return value;
}

/// The operator that makes what `copy` writes over a value of the outside; kNoNode where there is none to change.
NodeId source_of(const Graph& graph, const Node& copy, bool through_views) {
  const ValueId target = copy.inputs[0];
  ValueId source = copy.inputs[1];
  if (graph.value(target).kind != graph::ValueKind::kInput && graph.value(target).kind != graph::ValueKind::kParameter)
    return graph::kNoNode;
  if (through_views) source = behind_reshapes(graph, source);
  if (graph.value(source).kind != graph::ValueKind::kNodeOutput) return graph::kNoNode;
  const NodeId id = graph.value(source).producer;
  const Node& node = graph.node(id);
  if (node.inputs.empty() || node.inputs[0] == graph::kAbsent || node.outputs.size() != 1) return graph::kNoNode;
  const bool viewed = source != copy.inputs[1] || node.inputs[0] != target;
  if (viewed != through_views) return graph::kNoNode;
  const ValueId base = through_views ? behind_reshapes(graph, node.inputs[0]) : node.inputs[0];
  return base == target ? id : graph::kNoNode;
}

std::string mutation_hazard(const Graph& graph, NodeId id, NodeId copy_id) {
  const Node& node = graph.node(id);
  const Node& copy = graph.node(copy_id);
  const ValueId root = graph.value(copy.inputs[0]).root;
  const std::string& name = graph.value(copy.inputs[0]).name;
  const size_t end = graph.position(copy_id);
  for (size_t i = graph.position(id) + 1; i < end; ++i) {
    const Node& between = graph.node(graph.order()[i]);
    if (touches(graph, between, root)) return fmt::format("{} uses %{} in between", graph::describe(between), name);
    if (graph::writes(graph, between, graph.value(node.outputs[0]).root)) {
      return fmt::format("{} overwrites %{} in between", graph::describe(between), graph.value(node.outputs[0]).name);
    }
  }
  std::string hazard = graph::cross_stream_hazard(graph, id, copy_id, root);
  return hazard.empty() ? argument_hazard(graph, node) : hazard;
}

/// Erases a copy unless `y` could not stand for `x` without it.
std::string replace_hazard_without(Graph& graph, NodeId copy, ValueId y, ValueId x) {
  const Node node = graph.node(copy);
  const size_t position = graph.position(copy);
  graph.erase_node(copy);
  std::string hazard = graph::replace_hazard(graph, y, x);
  if (hazard.empty()) return "";
  graph::NodeArguments arguments = graph::arguments_of(node);
  if (position == graph.order().size()) {
    graph.add_node(*node.op, std::move(arguments));
  } else {
    graph.insert_before(graph.order()[position], *node.op, std::move(arguments));
  }
  return hazard;
}

PassResult rewrite_copies(Graph& graph, const ops::Registry& registry, const std::string& device, bool through_views) {
  PassResult result;
  std::vector<NodeId> copies = graph.order();
  std::erase_if(copies, [&](NodeId id) { return graph.node(id).op->name() != "copy_"; });
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    const NodeId id = source_of(graph, graph.node(*copy), through_views);
    if (id == graph::kNoNode) continue;
    const ops::OpDef* variant = variant_of(registry, device, graph.node(id));
    if (variant == nullptr) continue;
    const ValueId y = graph.node(id).outputs[0];
    const ValueId x = graph.node(id).inputs[0];
    std::string hazard = mutation_hazard(graph, id, *copy);
    if (hazard.empty() && returns(graph, graph.value(y).root)) {
      hazard = fmt::format("%{} is returned", graph.value(y).name);
    }
    if (hazard.empty()) hazard = replace_hazard_without(graph, *copy, y, x);
    if (!hazard.empty()) {
      result.refusals.push_back(fmt::format("{}: {}", graph::describe(graph.node(id)), hazard));
      continue;
    }
    replace_by_variant(graph, id, *variant);
    ++result.matches;
  }
  return result;
}

}  // namespace

PassResult in_place(Graph& graph, const ops::Registry& registry, const std::string& device) {
  PassResult result;
  const std::vector<NodeId> nodes = graph.order();
  for (const NodeId id : nodes) {
    const ops::OpDef* variant = variant_of(registry, device, graph.node(id));
    if (variant == nullptr) continue;
    const Node& node = graph.node(id);
    std::string hazard = intermediate_hazard(graph, id);
    if (hazard.empty()) hazard = graph::replace_hazard(graph, node.outputs[0], node.inputs[0]);
    if (!hazard.empty()) {
      result.refusals.push_back(fmt::format("{}: {}", graph::describe(node), hazard));
      continue;
    }
    replace_by_variant(graph, id, *variant);
    ++result.matches;
  }
  return result;
}

PassResult input_in_place(Graph& graph, const ops::Registry& registry, const std::string& device) {
  return rewrite_copies(graph, registry, device, false);
}

PassResult recover_view_in_place(Graph& graph, const ops::Registry& registry, const std::string& device) {
  return rewrite_copies(graph, registry, device, true);
}

}  // namespace reprise::compile
