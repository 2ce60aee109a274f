#include "graph/text_writer.h"

#include <fmt/core.h>

#include "graph/infer.h"

namespace reprise::graph {
namespace {

std::string name_of_value(const Graph& graph, ValueId id) {
  return id == kAbsent ? std::string("none") : "%" + graph.value(id).name;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string to_text(const ops::Attribute& attribute) {
  if (const std::string* text = std::get_if<std::string>(&attribute)) return quote(*text);
  return ops::to_string(attribute);
}

std::string to_text(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto separator = [](size_t i) { return i == 0 ? "" : ", "; };
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i) text += separator(i) + name_of_value(graph, node.outputs[i]);
  if (!node.outputs.empty()) text += " = ";
  text += node.op->name() + "(";
  size_t argument = 0;
  for (const ValueId input : node.inputs) text += separator(argument++) + name_of_value(graph, input);
  for (const ValueId list : node.lists) text += separator(argument++) + name_of_value(graph, list);
  text += ")";
  if (!node.attributes.empty()) {
    text += " {";
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      text += fmt::format("{}{} = {}", separator(i), node.op->schema().attributes[i].name, to_text(node.attributes[i]));
    }
    text += "}";
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    text += (i == 0 ? " : " : ", ") + graph.value(node.outputs[i]).meta.to_string();
  }
  if (node.stream != 0) text += " on " + graph.streams()[static_cast<size_t>(node.stream) - 1];
  if (!(node.core_limit == device::CoreLimit{})) {
    text += fmt::format(" limit({}, {})", node.core_limit.matrix_cores, node.core_limit.vector_cores);
  }
  return text;
}

std::string to_text(const Graph& graph) {
  std::string text = fmt::format("graph {} {{\n", graph.name());
  for (size_t i = 0; i < graph.symbols().size(); ++i) {
    const SymDim& symbol = graph.symbols()[i];
    text += fmt::format("  symbol s{} {} [{}, {}]\n", i, symbol.name, symbol.min, symbol.max);
  }
  for (const ValueId id : graph.inputs()) {
    text += fmt::format("  input %{} : {}\n", graph.value(id).name, graph.value(id).meta.to_string());
  }
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.value(id);
    text += fmt::format("  parameter %{} {} : {}\n", value.name, quote(value.label), value.meta.to_string());
  }
  for (const ValueId id : graph.lists()) {
    text += fmt::format("  list %{} : int[{}]\n", graph.value(id).name, graph.value(id).length.to_string());
  }
  for (const std::string& stream : graph.streams()) text += fmt::format("  stream {}\n", stream);
  for (const NodeId id : graph.order()) {
    text += "  " + to_text(graph, id);
    const std::string& source = graph.node(id).source;
    text += source.empty() ? "\n" : fmt::format("  # {}\n", source);
  }
  text += "  return";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    text += (i == 0 ? " " : ", ") + name_of_value(graph, graph.outputs()[i]);
  }
  return text + "\n}\n";
}

}  // namespace reprise::graph
