#include "graph/dot.h"

#include <fmt/core.h>

#include "graph/text_writer.h"

namespace reprise::graph {
namespace {

/// A label in quotes, where a line break is the two characters \n.
std::string label(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

std::string value_text(const Value& value) {
  return value.is_tensor() ? value.meta.to_string() : fmt::format("int[{}]", value.length.to_string());
}

/// The dot node that a value comes from.
std::string source_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.kind == ValueKind::kNodeOutput ? fmt::format("n{}", value.producer) : fmt::format("v{}", id);
}

std::string node_label(const Graph& graph, const Node& node) {
  std::string text = node.op->name();
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    text += fmt::format("\n{} = {}", node.op->schema().attributes[i].name, to_text(node.attributes[i]));
  }
  if (node.stream != 0) text += "\non " + stream_text(graph, node.stream);
  if (!(node.core_limit == device::CoreLimit{})) {
    text += fmt::format("\nlimit({}, {})", node.core_limit.matrix_cores, node.core_limit.vector_cores);
  }
  if (!node.source.empty()) text += "\n" + node.source;
  return text;
}

void draw_edges(const Graph& graph, NodeId id, std::string& text) {
  const Node& node = graph.node(id);
  const auto edge = [&](ValueId value, const std::string& argument, bool mutated) {
    const std::string words =
        fmt::format("{}: %{}\n{}", argument, graph.value(value).name, value_text(graph.value(value)));
    text += fmt::format("  {} -> n{} [label={}{}];\n", source_of(graph, value), id, label(words),
                        mutated ? ", color=red, dir=both" : "");
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ops::TensorSpec& spec = node.op->schema().tensors[i];
    if (node.inputs[i] != kAbsent) edge(node.inputs[i], spec.name, spec.mutated);
  }
  for (size_t i = 0; i < node.lists.size(); ++i) edge(node.lists[i], node.op->schema().lists[i].name, false);
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string text = fmt::format("digraph {} {{\n  node [shape=box, fontname=\"monospace\"];\n", label(graph.name()));
  text += "  edge [fontname=\"monospace\", fontsize=10];\n";
  const std::vector<std::vector<NodeId>> users = all_users(graph);
  const auto draw_value = [&](ValueId id, const std::string& words, std::string_view shape) {
    text += fmt::format("  v{} [shape={}, label={}];\n", id, shape, label(words));
  };
  for (const ValueId id : graph.inputs()) {
    draw_value(id, fmt::format("%{}\n{}", graph.value(id).name, value_text(graph.value(id))), "ellipse");
  }
  for (const ValueId id : graph.lists()) {
    draw_value(id, fmt::format("%{}\n{}", graph.value(id).name, value_text(graph.value(id))), "ellipse");
  }
  for (const ValueId id : graph.parameters()) {
    if (users[id].empty() && !graph.is_output(id)) continue;
    draw_value(id, fmt::format("{}\n{}", graph.value(id).label, value_text(graph.value(id))), "note");
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    text += fmt::format("  n{} [label={}{}];\n", id, label(node_label(graph, node)),
                        node.op->traits().view ? ", style=dashed" : "");
    draw_edges(graph, id, text);
  }
  if (!graph.outputs().empty()) text += "  result [shape=ellipse, label=\"return\"];\n";
  for (const ValueId id : graph.outputs()) {
    const Value& value = graph.value(id);
    text += fmt::format("  {} -> result [label={}];\n", source_of(graph, id),
                        label(fmt::format("%{}\n{}", value.name, value_text(value))));
  }
  return text + "}\n";
}

}  // namespace reprise::graph
