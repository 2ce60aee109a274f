#include "compile/rewriter.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"
#include "graph/text_writer.h"

namespace reprise::compile {
namespace {

/// Nodes of a match, in the order of the graph.
std::vector<graph::NodeId> matched_nodes(const graph::Graph& graph, const Binding& binding) {
  const std::vector<int32_t> positions = graph::number_nodes(graph);
  std::vector<graph::NodeId> nodes;
  std::copy_if(binding.nodes.begin(), binding.nodes.end(), std::back_inserter(nodes),
               [](graph::NodeId id) { return id != graph::kNoNode; });
  std::sort(nodes.begin(), nodes.end(), [&](graph::NodeId a, graph::NodeId b) { return positions[a] < positions[b]; });
  return nodes;
}

bool touches(const graph::Graph& graph, const graph::Node& node, graph::ValueId root) {
  const auto has_root = [&](graph::ValueId id) { return id != graph::kAbsent && graph.value(id).root == root; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), has_root);
}

/// Why two nodes cannot change places, memory and streams alone considered.
std::string memory_hazard(const graph::Graph& graph, const graph::Node& a, const graph::Node& b) {
  std::string control = graph::control_hazard(a, b);
  if (!control.empty()) return control;
  for (const auto& [writer, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const graph::ValueId root : graph::written_roots(graph, *writer)) {
      if (!touches(graph, *other, root)) continue;
      return fmt::format("{} writes %{} between the pattern's operators", graph::describe(*writer),
                         graph.value(root).name);
    }
  }
  return "";
}

/// External memory that the nodes of a traced side write, as indices into `arguments` (tensors of the rule).
std::set<size_t> written_arguments(const TracedPattern& side) {
  std::set<size_t> written;
  for (const graph::NodeId id : side.graph.order()) {
    for (const graph::ValueId root : graph::written_roots(side.graph, side.graph.node(id))) {
      const auto place = std::find(side.tensors.begin(), side.tensors.end(), root);
      if (place != side.tensors.end()) written.insert(static_cast<size_t>(place - side.tensors.begin()));
    }
  }
  return written;
}

}  // namespace

PassResult Rewriter::run() {
  const size_t limit = ReplacementSet::kMatchesPerNode * (graph_.order().size() + 16);
  while (run_round(limit)) {
  }
  return std::move(result_);
}

bool Rewriter::run_round(size_t limit) {
  result_.refusals.clear();
  bool changed = false;
  const std::vector<graph::NodeId> candidates = graph_.order();
  for (auto id = candidates.rbegin(); id != candidates.rend(); ++id) {
    for (const auto& entry : set_.entries_) {
      if (!graph_.has_node(*id)) break;
      if (!try_rule(*entry, *id)) continue;
      changed = true;
      ++result_.matches;
      ++matches_[entry->rule.name];
      check_end(limit);
    }
  }
  return changed;
}

bool Rewriter::try_rule(const Entry& entry, graph::NodeId root) {
  std::string reason;
  std::optional<Plan> found;
  Matcher matcher(entry.pattern.graph, entry.rule.scalars, graph_);
  matcher.match(root, [&](const Binding& binding) {
    Plan plan{.binding = binding, .replacement = {graph::Graph("none"), {}, {}}};
    std::string refusal = examine(entry, plan);
    if (refusal.empty()) {
      found.emplace(std::move(plan));
      return true;
    }
    if (reason.empty()) reason = std::move(refusal);
    return false;
  });
  if (found) {
    reason = apply(entry, *found, root);
    if (reason.empty()) return true;
  }
  if (!reason.empty()) {
    result_.refusals.push_back(fmt::format("{}: {}: {}", graph::describe(graph_.node(root)), entry.rule.name, reason));
  }
  return false;
}

std::string Rewriter::examine(const Entry& entry, Plan& plan) const {
  const ReplacementRule& rule = entry.rule;
  const PatternContext::Names names{rule.tensors, rule.lists, rule.scalars};
  const PatternArguments arguments = arguments_of(entry, plan.binding);
  try {
    const TracedPattern again = trace_pattern(registry_, "pattern", rule.pattern, names, arguments);
    std::string reason = compare(again, entry, plan.binding);
    if (!reason.empty()) return reason;
  } catch (const Error& error) {
    return fmt::format("the pattern cannot have these shapes: {}", error.what());
  }
  std::string reason = check_scopes(entry, plan.binding);
  if (reason.empty()) reason = check_outside_uses(entry, plan.binding);
  if (reason.empty()) reason = find_place(entry, plan);
  if (!reason.empty()) return reason;
  if (rule.check) {
    reason = rule.check(Match(rule, entry.pattern, graph_, plan.binding));
    if (!reason.empty()) return reason;
  }
  if (rule.inexact && !options_.allow_inexact) return "it is inexact, and inexact fusions are off";
  try {
    plan.replacement = trace_pattern(registry_, rule.name, rule.replacement, names, arguments);
  } catch (const Error& error) {
    return fmt::format("the replacement cannot be made: {}", error.what());
  }
  if (uses_scopes(plan.replacement.graph)) return "the replacement uses streams, events or core limits";
  reason = check_outputs(entry, plan);
  return reason.empty() ? check_effects(entry, plan) : reason;
}

PatternArguments Rewriter::arguments_of(const Entry& entry, const Binding& binding) const {
  PatternArguments arguments{.symbols = graph_.symbols(), .tensors = {}, .lists = {}, .scalars = {}};
  for (const graph::ValueId tensor : entry.pattern.tensors) {
    arguments.tensors.push_back(graph_.value(binding.values[tensor]).meta);
  }
  for (const graph::ValueId list : entry.pattern.lists) {
    arguments.lists.push_back(graph_.value(binding.values[list]).length);
  }
  for (const auto& scalar : binding.scalars) arguments.scalars.push_back(*scalar);
  return arguments;
}

std::string Rewriter::compare(const TracedPattern& again, const Entry& entry, const Binding& binding) const {
  const graph::Graph& pattern = entry.pattern.graph;
  if (again.graph.order().size() != pattern.order().size()) return "the pattern has other operators for these shapes";
  // The functions are deterministic, so the nodes come in the same order.
  std::vector<graph::ValueId> bound(again.graph.value_limit(), graph::kAbsent);
  for (size_t i = 0; i < again.tensors.size(); ++i) bound[again.tensors[i]] = binding.values[entry.pattern.tensors[i]];
  for (size_t i = 0; i < pattern.order().size(); ++i) {
    const graph::Node& expected = again.graph.node(again.graph.order()[i]);
    const graph::Node& found = graph_.node(binding.nodes[pattern.order()[i]]);
    if (expected.op->name() != found.op->name()) return "the pattern has other operators for these shapes";
    for (size_t k = 0; k < expected.attributes.size(); ++k) {
      if (expected.attributes[k] == found.attributes[k]) continue;
      return fmt::format("{} has {} = {}, the pattern has {}", graph::describe(found),
                         expected.op->schema().attributes[k].name, graph::to_text(found.attributes[k]),
                         graph::to_text(expected.attributes[k]));
    }
    const auto fits = [&](bool swapped) {
      for (size_t k = 0; k < expected.inputs.size(); ++k) {
        const graph::ValueId value = found.inputs[swapped && k < 2 ? 1 - k : k];
        const graph::ValueId wanted = expected.inputs[k] == graph::kAbsent ? graph::kAbsent : bound[expected.inputs[k]];
        if (wanted != value) return false;
      }
      return true;
    };
    if (!fits(false) && !(expected.op->traits().commutative && fits(true))) {
      return "the pattern is wired otherwise for these shapes";
    }
    for (size_t k = 0; k < expected.outputs.size(); ++k) bound[expected.outputs[k]] = found.outputs[k];
  }
  return "";
}

std::string Rewriter::check_scopes(const Entry& entry, const Binding& binding) const {
  const graph::Node& first = graph_.node(binding.nodes[entry.pattern.graph.order()[0]]);
  for (const graph::NodeId id : entry.pattern.graph.order()) {
    const graph::Node& node = graph_.node(binding.nodes[id]);
    if (node.stream != first.stream) {
      return fmt::format("{} is on {}, {} on {}", graph::describe(first), graph::stream_text(graph_, first.stream),
                         graph::describe(node), graph::stream_text(graph_, node.stream));
    }
    if (!(node.core_limit == first.core_limit)) {
      return fmt::format("{} and {} have different core limits", graph::describe(first), graph::describe(node));
    }
  }
  return "";
}

std::string Rewriter::check_outside_uses(const Entry& entry, const Binding& binding) const {
  const std::vector<graph::ValueId>& outputs = entry.pattern.graph.outputs();
  const auto is_matched = [&](graph::NodeId id) {
    return std::find(binding.nodes.begin(), binding.nodes.end(), id) != binding.nodes.end();
  };
  for (const graph::ValueId tensor : entry.pattern.tensors) {
    const graph::Value& value = graph_.value(binding.values[tensor]);
    if (value.producer == graph::kNoNode || !is_matched(value.producer)) continue;
    return fmt::format("%{} is made by the pattern's operators and taken by them as an argument", value.name);
  }
  for (const graph::NodeId id : entry.pattern.graph.order()) {
    for (const graph::ValueId inner : entry.pattern.graph.node(id).outputs) {
      if (std::find(outputs.begin(), outputs.end(), inner) != outputs.end()) continue;
      const graph::ValueId value = binding.values[inner];
      if (graph_.is_output(value)) return fmt::format("%{} is an output of the graph", graph_.value(value).name);
      for (const graph::NodeId user : graph_.users(value)) {
        if (is_matched(user)) continue;
        return fmt::format("%{} is used outside the pattern, by {}", graph_.value(value).name,
                           graph::describe(graph_.node(user)));
      }
    }
  }
  return "";
}

std::string Rewriter::find_place(const Entry& entry, Plan& plan) const {
  const std::vector<graph::NodeId> nodes = matched_nodes(graph_, plan.binding);
  const std::vector<int32_t> positions = graph::number_nodes(graph_);
  const auto is_matched = [&](graph::NodeId id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); };
  // As late as possible: behind the last of the pattern's nodes, but in front of who uses a result already.
  size_t place = static_cast<size_t>(positions[nodes.back()]) + 1;
  for (const graph::ValueId output : entry.pattern.graph.outputs()) {
    for (const graph::NodeId user : graph_.users(plan.binding.values[output])) {
      if (!is_matched(user)) place = std::min(place, static_cast<size_t>(positions[user]));
    }
  }
  for (const graph::ValueId tensor : entry.pattern.tensors) {
    const graph::Value& value = graph_.value(plan.binding.values[tensor]);
    if (value.producer == graph::kNoNode || static_cast<size_t>(positions[value.producer]) < place) continue;
    return fmt::format("%{} is made behind a use of the pattern's results", value.name);
  }
  const size_t first = std::min(place, static_cast<size_t>(positions[nodes.front()]));
  const size_t end = std::max(place, static_cast<size_t>(positions[nodes.back()]) + 1);
  for (const graph::NodeId moved : nodes) {
    const size_t from = static_cast<size_t>(positions[moved]);
    for (size_t i = first; i < end; ++i) {
      const graph::NodeId other = graph_.order()[i];
      const bool crossed = from < place ? i > from && i < place : i < from && i >= place;
      if (!crossed || is_matched(other)) continue;
      std::string hazard = memory_hazard(graph_, graph_.node(moved), graph_.node(other));
      if (!hazard.empty()) return hazard;
    }
  }
  plan.next = place < graph_.order().size() ? graph_.order()[place] : graph::kNoNode;
  return "";
}

std::string Rewriter::check_effects(const Entry& entry, const Plan& plan) const {
  const std::set<size_t> before = written_arguments(entry.pattern);
  const std::set<size_t> after = written_arguments(plan.replacement);
  for (size_t i = 0; i < entry.rule.tensors.size(); ++i) {
    if (before.contains(i) == after.contains(i)) continue;
    return fmt::format("only the {} writes '{}'", before.contains(i) ? "pattern" : "replacement",
                       entry.rule.tensors[i].name);
  }
  if (options_.device.empty()) return "";
  for (const graph::NodeId id : plan.replacement.graph.order()) {
    const ops::OpDef& op = *plan.replacement.graph.node(id).op;
    if (op.traits().view || op.kernel(options_.device) != nullptr) continue;
    return fmt::format("device '{}' has no kernel for {}", options_.device, op.name());
  }
  return "";
}

std::string Rewriter::check_outputs(const Entry& entry, const Plan& plan) const {
  const std::vector<graph::ValueId>& old_outputs = entry.pattern.graph.outputs();
  const std::vector<graph::ValueId>& new_outputs = plan.replacement.graph.outputs();
  if (old_outputs.size() != new_outputs.size()) {
    return fmt::format("the pattern returns {} tensors, the replacement {}", old_outputs.size(), new_outputs.size());
  }
  std::set<graph::ValueId> own_roots;
  for (size_t i = 0; i < old_outputs.size(); ++i) {
    const graph::Value& before = graph_.value(plan.binding.values[old_outputs[i]]);
    const graph::Value& after = plan.replacement.graph.value(new_outputs[i]);
    if (!(before.meta == after.meta)) {
      return fmt::format("result {} would be {} in place of {}", i, after.meta.to_string(), before.meta.to_string());
    }
    if (!graph_.is_output(plan.binding.values[old_outputs[i]])) continue;
    const graph::Value& root = plan.replacement.graph.value(after.root);
    if (root.kind != graph::ValueKind::kNodeOutput || !own_roots.insert(after.root).second) {
      return "an output of the graph would share the memory of another value";
    }
  }
  return "";
}

void Rewriter::check_end(size_t limit) const {
  if (static_cast<size_t>(result_.matches) <= limit) return;
  const auto most = std::max_element(matches_.begin(), matches_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  throw Error(ErrorCode::kInvalidArgument,
              "replacement '{}' never ends: its pattern keeps fitting what replacements have made, {} times so far",
              most->first, most->second)
      .remedy("let the replacement not contain its own pattern, or let its check refuse what it made");
}

std::string Rewriter::apply(const Entry& entry, const Plan& plan, graph::NodeId root) {
  std::vector<graph::NodeId> nodes;
  const std::vector<graph::ValueId> new_values = insert(entry, plan, root, nodes);
  const std::vector<graph::ValueId>& outputs = entry.pattern.graph.outputs();
  std::string hazard;
  for (size_t i = 0; i < outputs.size() && hazard.empty(); ++i) {
    hazard = graph::replace_hazard(graph_, plan.binding.values[outputs[i]], new_values[i]);
  }
  if (!hazard.empty()) {
    graph_.erase_nodes(nodes);
    return hazard;
  }
  for (size_t i = 0; i < outputs.size(); ++i) graph_.replace_uses(plan.binding.values[outputs[i]], new_values[i]);
  graph_.erase_nodes(matched_nodes(graph_, plan.binding));
  return "";
}

std::vector<graph::ValueId> Rewriter::insert(const Entry& entry, const Plan& plan, graph::NodeId root,
                                             std::vector<graph::NodeId>& nodes) {
  const graph::Node pattern = graph_.node(root);  // a copy: it moves when others are added
  const graph::Graph& made = plan.replacement.graph;
  std::vector<graph::ValueId> values(made.value_limit(), graph::kAbsent);
  for (size_t i = 0; i < plan.replacement.tensors.size(); ++i) {
    values[plan.replacement.tensors[i]] = plan.binding.values[entry.pattern.tensors[i]];
  }
  for (size_t i = 0; i < plan.replacement.lists.size(); ++i) {
    values[plan.replacement.lists[i]] = plan.binding.values[entry.pattern.lists[i]];
  }
  for (const graph::ValueId id : made.parameters()) {
    const graph::Value& parameter = made.value(id);
    const auto known = graph_.find_parameter(parameter.tensor);
    std::string label = entry.rule.name + "." + parameter.label;
    while (!known && graph_.find_parameter(label)) label += "'";
    values[id] = known ? *known : graph_.add_parameter(label, parameter.tensor);
  }
  for (const graph::NodeId id : made.order()) {
    const graph::Node& node = made.node(id);
    graph::NodeArguments arguments{.inputs = {},
                                   .lists = {},
                                   .attributes = node.attributes,
                                   .source = pattern.source,
                                   .stream = pattern.stream,
                                   .core_limit = pattern.core_limit};
    const auto mapped = [&](graph::ValueId value) { return value == graph::kAbsent ? value : values[value]; };
    for (const graph::ValueId input : node.inputs) arguments.inputs.push_back(mapped(input));
    for (const graph::ValueId list : node.lists) arguments.lists.push_back(mapped(list));
    nodes.push_back(plan.next == graph::kNoNode ? graph_.add_node(*node.op, std::move(arguments))
                                                : graph_.insert_before(plan.next, *node.op, std::move(arguments)));
    for (size_t i = 0; i < node.outputs.size(); ++i) values[node.outputs[i]] = graph_.output_of(nodes.back(), i);
  }
  std::vector<graph::ValueId> results;
  for (const graph::ValueId output : made.outputs()) results.push_back(values[output]);
  return results;
}

}  // namespace reprise::compile
