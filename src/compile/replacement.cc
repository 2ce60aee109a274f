#include "compile/replacement.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/rewriter.h"
#include "graph/infer.h"

namespace reprise::compile {
namespace {

template <typename Declarations>
size_t declared(const ReplacementRule& rule, const Declarations& declarations, std::string_view name) {
  for (size_t i = 0; i < declarations.size(); ++i) {
    if (declarations[i].name == name) return i;
  }
  throw Error(ErrorCode::kInvalidArgument, "the check of replacement '{}' asks for '{}', which it does not declare",
              rule.name, name);
}

[[noreturn]] void fail(const ReplacementRule& rule, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument, "replacement '{}': {}", rule.name, what);
}

void check_declarations(const ReplacementRule& rule) {
  if (rule.name.empty()) throw Error(ErrorCode::kInvalidArgument, "a replacement needs a name");
  if (!rule.pattern || !rule.replacement) fail(rule, "needs a pattern and a replacement");
  std::set<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (name.empty() || !names.insert(name).second) fail(rule, fmt::format("'{}' is declared twice or empty", name));
  };
  for (const PatternTensor& tensor : rule.tensors) add(tensor.name);
  for (const PatternList& list : rule.lists) add(list.name);
  for (size_t i = 0; i < rule.scalars.size(); ++i) {
    add(rule.scalars[i].name);
    for (size_t j = 0; j < i; ++j) {
      if (rule.scalars[i].example == rule.scalars[j].example) {
        fail(rule,
             fmt::format("scalars '{}' and '{}' have the same example", rule.scalars[j].name, rule.scalars[i].name));
      }
    }
  }
}

bool occurs(const graph::Graph& pattern, const PatternScalar& scalar) {
  return std::any_of(pattern.order().begin(), pattern.order().end(), [&](graph::NodeId id) {
    const auto& attributes = pattern.node(id).attributes;
    return std::find(attributes.begin(), attributes.end(), scalar.example) != attributes.end();
  });
}

/// Whether the matcher can reach every node from the last one.
bool is_connected(const graph::Graph& pattern) {
  std::vector<bool> reached(pattern.value_limit(), false);
  const auto node_reached = [&](const graph::Node& node) {
    const auto is_reached = [&](graph::ValueId id) { return id != graph::kAbsent && reached[id]; };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_reached) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is_reached);
  };
  const auto reach = [&](const graph::Node& node) {
    bool changed = false;
    for (const std::vector<graph::ValueId>* values : {&node.inputs, &node.outputs}) {
      for (const graph::ValueId id : *values) {
        if (id == graph::kAbsent || reached[id]) continue;
        changed = reached[id] = true;
      }
    }
    return changed;
  };
  reach(pattern.node(pattern.order().back()));
  for (bool changed = true; changed;) {
    changed = false;
    for (const graph::NodeId id : pattern.order()) {
      if (node_reached(pattern.node(id)) && reach(pattern.node(id))) changed = true;
    }
  }
  return std::all_of(pattern.order().begin(), pattern.order().end(),
                     [&](graph::NodeId id) { return node_reached(pattern.node(id)); });
}

void check_pattern(const ReplacementRule& rule, const TracedPattern& pattern) {
  const graph::Graph& graph = pattern.graph;
  if (graph.order().empty()) fail(rule, "the pattern has no operators");
  if (uses_scopes(graph)) fail(rule, "the pattern uses streams, events or core limits");
  if (!graph.parameters().empty()) fail(rule, "the pattern uses a tensor that is none of its arguments");
  for (size_t i = 0; i < rule.tensors.size(); ++i) {
    if (graph.users(pattern.tensors[i]).empty()) {
      fail(rule, fmt::format("the pattern does not use '{}'", rule.tensors[i].name));
    }
  }
  for (const PatternScalar& scalar : rule.scalars) {
    if (!occurs(graph, scalar)) fail(rule, fmt::format("no attribute of the pattern is '{}'", scalar.name));
  }
  if (!is_connected(graph)) fail(rule, "the pattern's operators are not connected");
}

}  // namespace

const graph::Value& Match::value(std::string_view tensor) const {
  const size_t index = declared(rule_, rule_.tensors, tensor);
  return graph_.value(binding_.values[pattern_.tensors[index]]);
}

const ops::Attribute& Match::scalar(std::string_view name) const {
  return *binding_.scalars[declared(rule_, rule_.scalars, name)];
}

void ReplacementSet::add(ReplacementRule rule) {
  check_declarations(rule);
  for (const auto& entry : entries_) {
    if (entry->rule.name == rule.name) fail(rule, "the name is taken");
  }
  static const std::vector<graph::SymDim> kSymbols = {{"tokens", 1, 64}, {"sequences", 1, 64}};
  PatternArguments arguments{.symbols = kSymbols, .tensors = {}, .lists = {}, .scalars = {}};
  for (const PatternTensor& tensor : rule.tensors) arguments.tensors.push_back(tensor.example);
  for (const PatternList& list : rule.lists) arguments.lists.push_back(list.example_length);
  for (const PatternScalar& scalar : rule.scalars) arguments.scalars.push_back(scalar.example);
  try {
    TracedPattern pattern =
        trace_pattern(*registry_, "pattern", rule.pattern, {rule.tensors, rule.lists, rule.scalars}, arguments);
    check_pattern(rule, pattern);
    entries_.push_back(std::make_shared<const Entry>(Entry{std::move(rule), std::move(pattern)}));
  } catch (Error& error) {
    if (error.message().find("replacement '") != 0) error.add_context(fmt::format("replacement '{}'", rule.name));
    throw;
  }
}

std::vector<std::string> ReplacementSet::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry->rule.name);
  return names;
}

PassResult ReplacementSet::run(graph::Graph& graph, const RewriteOptions& options) const {
  Rewriter rewriter(*this, *registry_, options, graph);
  return rewriter.run();
}

}  // namespace reprise::compile
