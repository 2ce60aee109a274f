#include "compile/matcher.h"

#include <algorithm>

namespace reprise::compile {
namespace {

constexpr graph::ValueId kUnbound = -2;

/// What may follow from the shapes of the place, so that the example says nothing about it.
bool follows_from_shapes(const ops::Attribute& attribute) {
  return std::holds_alternative<Shape>(attribute) || std::holds_alternative<int64_t>(attribute) ||
         std::holds_alternative<DType>(attribute);
}

}  // namespace

bool Matcher::match(graph::NodeId root, const std::function<bool(const Binding&)>& accept) {
  const graph::NodeId last = pattern_.order().back();
  if (pattern_.node(last).op->name() != graph_.node(root).op->name()) return false;
  accept_ = &accept;
  ways_ = 0;
  Binding binding;
  binding.values.assign(pattern_.value_limit(), kUnbound);
  binding.nodes.assign(pattern_.node_limit(), graph::kNoNode);
  binding.scalars.resize(scalars_.size());
  return extend(std::move(binding), {{last, root}});
}

bool Matcher::extend(Binding binding, Agenda agenda) {
  while (!agenda.empty()) {
    const auto [pattern_id, node_id] = agenda.back();
    agenda.pop_back();
    if (binding.nodes[pattern_id] == node_id) continue;
    if (!bind_node(binding, pattern_id, node_id)) return false;
    const graph::Node& pattern = pattern_.node(pattern_id);
    const graph::Node& node = graph_.node(node_id);
    if (pattern.op->traits().commutative) {
      Binding as_written = binding;
      Agenda as_written_agenda = agenda;
      if (bind_inputs(as_written, as_written_agenda, pattern, node, false) &&
          extend(std::move(as_written), std::move(as_written_agenda))) {
        return true;
      }
    }
    if (!bind_inputs(binding, agenda, pattern, node, pattern.op->traits().commutative)) return false;
  }
  return extend_forward(binding);
}

bool Matcher::extend_forward(const Binding& binding) {
  // Nodes that the last one does not depend on: they take what is bound already.
  for (const graph::NodeId id : pattern_.order()) {
    if (binding.nodes[id] != graph::kNoNode) continue;
    const graph::Node& pattern = pattern_.node(id);
    const auto bound = std::find_if(pattern.inputs.begin(), pattern.inputs.end(), [&](graph::ValueId input) {
      return input != graph::kAbsent && binding.values[input] >= 0;
    });
    if (bound == pattern.inputs.end()) continue;
    const std::vector<graph::NodeId> users = graph_.users(binding.values[*bound]);
    return std::any_of(users.begin(), users.end(),
                       [&](graph::NodeId user) { return ways_ < kMaxWays && extend(binding, {{id, user}}); });
  }
  if (++ways_ > kMaxWays) return false;
  return (*accept_)(binding);
}

bool Matcher::bind_node(Binding& binding, graph::NodeId pattern_id, graph::NodeId node_id) const {
  const graph::Node& pattern = pattern_.node(pattern_id);
  const graph::Node& node = graph_.node(node_id);
  if (binding.nodes[pattern_id] != graph::kNoNode || pattern.op->name() != node.op->name()) return false;
  if (std::find(binding.nodes.begin(), binding.nodes.end(), node_id) != binding.nodes.end()) return false;
  if (pattern.inputs.size() != node.inputs.size() || pattern.lists.size() != node.lists.size() ||
      pattern.outputs.size() != node.outputs.size() || !bind_attributes(binding, pattern, node)) {
    return false;
  }
  binding.nodes[pattern_id] = node_id;
  for (size_t i = 0; i < pattern.outputs.size(); ++i) {
    graph::ValueId& bound = binding.values[pattern.outputs[i]];
    if (bound != kUnbound && bound != node.outputs[i]) return false;
    bound = node.outputs[i];
  }
  for (size_t i = 0; i < pattern.lists.size(); ++i) {
    graph::ValueId& bound = binding.values[pattern.lists[i]];
    if (bound != kUnbound && bound != node.lists[i]) return false;
    bound = node.lists[i];
  }
  return true;
}

bool Matcher::bind_attributes(Binding& binding, const graph::Node& pattern, const graph::Node& node) const {
  if (pattern.attributes.size() != node.attributes.size()) return false;
  for (size_t i = 0; i < pattern.attributes.size(); ++i) {
    const ops::Attribute& expected = pattern.attributes[i];
    const ops::Attribute& found = node.attributes[i];
    if (expected.index() != found.index()) return false;
    const auto scalar = std::find_if(scalars_.begin(), scalars_.end(),
                                     [&](const PatternScalar& declared) { return declared.example == expected; });
    if (scalar != scalars_.end()) {
      std::optional<ops::Attribute>& captured = binding.scalars[static_cast<size_t>(scalar - scalars_.begin())];
      if (captured && !(*captured == found)) return false;
      captured = found;
    } else if (!follows_from_shapes(expected) && !(expected == found)) {
      return false;
    }
  }
  return true;
}

bool Matcher::bind_inputs(Binding& binding, Agenda& agenda, const graph::Node& pattern, const graph::Node& node,
                          bool swapped) const {
  for (size_t i = 0; i < pattern.inputs.size(); ++i) {
    const size_t from = swapped && i < 2 ? 1 - i : i;
    if (!bind_value(binding, agenda, pattern.inputs[i], node.inputs[from])) return false;
  }
  return true;
}

bool Matcher::bind_value(Binding& binding, Agenda& agenda, graph::ValueId pattern_id, graph::ValueId value_id) const {
  if (pattern_id == graph::kAbsent || value_id == graph::kAbsent) return pattern_id == value_id;
  graph::ValueId& bound = binding.values[pattern_id];
  if (bound != kUnbound) return bound == value_id;
  const graph::Value& pattern = pattern_.value(pattern_id);
  if (pattern.kind == graph::ValueKind::kNodeOutput) {
    const graph::Value& value = graph_.value(value_id);
    if (value.kind != graph::ValueKind::kNodeOutput || value.output_index != pattern.output_index) return false;
    agenda.emplace_back(pattern.producer, value.producer);
    return true;
  }
  bound = value_id;
  return true;
}

}  // namespace reprise::compile
