#include "graph/graph.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"

namespace reprise::graph {
namespace {

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// One printable line without blanks at its ends: what the text of a graph can hold behind '#'.
std::string clean_source(std::string_view source) {
  std::string text;
  for (const char c : source) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

bool takes(const Node& node, ValueId value) {
  return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end() ||
         std::find(node.lists.begin(), node.lists.end(), value) != node.lists.end();
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_character);
}

Graph::Graph(std::string name) : name_(std::move(name)) {
  if (!is_name(name_)) throw Error(ErrorCode::kInvalidArgument, "'{}' cannot be the name of a graph", name_);
}

Symbol Graph::add_symbol(std::string_view name, int64_t min, int64_t max) {
  if (!is_name(name)) throw Error(ErrorCode::kInvalidArgument, "'{}' cannot be the name of a symbol", name);
  for (const SymDim& symbol : symbols_) {
    if (symbol.name == name) throw Error(ErrorCode::kInvalidArgument, "there is a symbol '{}' already", name);
  }
  if (min < 0 || min > max || max > kMaxSymbolValue) {
    throw Error(ErrorCode::kInvalidArgument, "symbol '{}' cannot have the range [{}, {}]", name, min, max);
  }
  if (symbols_.size() == kMaxSymbols)
    throw Error(ErrorCode::kUnsupported, "a graph has at most {} symbols", kMaxSymbols);
  symbols_.push_back({std::string(name), min, max});
  return static_cast<Symbol>(symbols_.size() - 1);
}

int32_t Graph::add_stream(std::string_view name) {
  if (!is_name(name)) throw Error(ErrorCode::kInvalidArgument, "'{}' cannot be the name of a stream", name);
  const auto known = std::find(streams_.begin(), streams_.end(), name);
  if (known != streams_.end()) return static_cast<int32_t>(known - streams_.begin()) + 1;
  streams_.emplace_back(name);
  return static_cast<int32_t>(streams_.size());
}

ValueId Graph::add_input(std::string_view name, const TensorMeta& meta) {
  Value value;
  value.kind = ValueKind::kInput;
  value.meta = checked_meta(meta, symbols_, name);
  inputs_.push_back(add_value(std::move(value), name));
  return inputs_.back();
}

ValueId Graph::add_host_list(std::string_view name, Dim length) {
  Value value;
  value.kind = ValueKind::kHostList;
  const std::string fault = dim_fault(length, symbols_);
  if (!fault.empty()) throw Error(ErrorCode::kInvalidArgument, "the length of host list '{}' {}", name, fault);
  value.length = length;
  lists_.push_back(add_value(std::move(value), name));
  return lists_.back();
}

ValueId Graph::add_parameter(std::string_view label, const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_traced()) {
    throw Error(ErrorCode::kInvalidArgument, "parameter '{}' is bound to a tensor without identity", label);
  }
  if (tensor.data() != nullptr) {
    if (const auto known = find_parameter(tensor)) return *known;
  } else if (const auto known = find_parameter(label)) {
    const Value& value = values_[*known];
    if (value.tensor.data() == nullptr && value.meta == tensor.meta()) return *known;
  }
  const ValueId id = add_parameter(label, tensor.meta());
  values_[id].tensor = tensor;
  const bool shared = std::any_of(parameters_.begin(), parameters_.end(), [&](ValueId other) {
    return other != id && share_memory(values_[other].tensor, tensor);
  });
  if (shared) update_roots();
  return id;
}

ValueId Graph::add_parameter(std::string_view label, const TensorMeta& meta, std::string_view name) {
  if (label.empty()) throw Error(ErrorCode::kInvalidArgument, "a parameter needs a name");
  if (labels_.contains(label)) {
    throw Error(ErrorCode::kInvalidArgument, "parameter '{}' is bound to another tensor already", label);
  }
  if (!meta.shape.is_constant()) {
    throw Error(ErrorCode::kInvalidArgument, "parameter '{}' has the symbolic shape {}", label, meta.shape.to_string());
  }
  Value value;
  value.kind = ValueKind::kParameter;
  value.meta = checked_meta(meta, symbols_, label);
  value.label = std::string(label);
  const ValueId id = add_value(std::move(value), name.empty() ? fmt::format("w{}", parameters_.size()) : name);
  labels_.emplace(std::string(label), id);
  parameters_.push_back(id);
  return id;
}

std::optional<ValueId> Graph::find_parameter(const Tensor& tensor) const {
  if (tensor.data() == nullptr) return std::nullopt;
  for (const ValueId id : parameters_) {
    if (values_[id].tensor.data() == tensor.data() && values_[id].meta == tensor.meta()) return id;
  }
  return std::nullopt;
}

std::optional<ValueId> Graph::find_parameter(std::string_view label) const {
  const auto place = labels_.find(label);
  if (place == labels_.end()) return std::nullopt;
  return place->second;
}

void Graph::bind_parameter(ValueId parameter, const Tensor& tensor) {
  Value& bound = mutable_value(parameter);
  if (bound.kind != ValueKind::kParameter) {
    throw Error(ErrorCode::kInvalidArgument, "%{} is not a parameter", bound.name);
  }
  if (!tensor.defined() || !(tensor.meta() == bound.meta)) {
    throw Error(ErrorCode::kInvalidArgument, "parameter '{}' is {}, it cannot be bound to {}", bound.label,
                bound.meta.to_string(), tensor.defined() ? tensor.meta().to_string() : "an absent tensor");
  }
  bound.tensor = tensor;
  update_roots();
}

NodeId Graph::add_node(const ops::OpDef& op, NodeArguments arguments, std::span<const std::string> output_names) {
  return make_node(order_.size(), op, std::move(arguments), output_names);
}

NodeId Graph::insert_before(NodeId next, const ops::OpDef& op, NodeArguments arguments,
                            std::span<const std::string> output_names) {
  return make_node(position(next), op, std::move(arguments), output_names);
}

NodeId Graph::make_node(size_t position, const ops::OpDef& op, NodeArguments arguments,
                        std::span<const std::string> output_names) {
  Node node;
  node.op = &op;
  node.inputs = std::move(arguments.inputs);
  node.lists = std::move(arguments.lists);
  node.attributes = std::move(arguments.attributes);
  node.source = clean_source(arguments.source);
  node.stream = arguments.stream;
  node.core_limit = arguments.core_limit;
  const std::vector<TensorMeta> metas = infer_outputs(*this, node);

  const NodeId id = static_cast<NodeId>(nodes_.size());
  for (size_t i = 0; i < metas.size(); ++i) {
    Value value;
    value.kind = ValueKind::kNodeOutput;
    value.meta = metas[i];
    value.producer = id;
    value.output_index = static_cast<uint32_t>(i);
    std::string wish = i < output_names.size() ? output_names[i] : std::string();
    if (wish.empty()) wish = metas.size() == 1 ? op.name() : op.name() + "_" + op.schema().outputs[i];
    const ValueId output = add_value(std::move(value), wish);
    if (i == 0 && op.traits().view) values_[output].root = values_[node.inputs[0]].root;
    node.outputs.push_back(output);
  }
  nodes_.push_back(std::move(node));
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(position), id);
  return id;
}

ValueId Graph::output_of(NodeId id, size_t index) const {
  const Node& producer = node(id);
  if (index >= producer.outputs.size()) {
    throw Error(ErrorCode::kInternal, "{} has {} outputs, there is no output {}", producer.op->name(),
                producer.outputs.size(), index);
  }
  return producer.outputs[index];
}

void Graph::set_outputs(std::vector<ValueId> outputs) {
  for (const ValueId id : outputs) {
    if (!has_value(id) || !values_[id].is_tensor()) {
      throw Error(ErrorCode::kInvalidArgument, "graph {}: value {} cannot be returned, it is no tensor of the graph",
                  name_, id);
    }
  }
  outputs_ = std::move(outputs);
}

std::vector<NodeId> Graph::users(ValueId value) const {
  std::vector<NodeId> result;
  for (const NodeId id : order_) {
    if (takes(nodes_[id], value)) result.push_back(id);
  }
  return result;
}

bool Graph::is_output(ValueId value) const {
  return std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
}

void Graph::replace_uses(ValueId old_value, ValueId new_value) {
  const Value& from = value(old_value);
  const Value& to = value(new_value);
  if (from.is_tensor() != to.is_tensor()) {
    throw Error(ErrorCode::kInvalidArgument, "%{} cannot stand for %{}: one is a host list", to.name, from.name);
  }
  if (old_value == new_value) return;
  const std::string hazard = replace_hazard(*this, old_value, new_value);
  if (!hazard.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "%{} cannot stand for %{}: {}", to.name, from.name, hazard);
  }
  for (const NodeId id : order_) {
    if (id == to.producer) continue;
    std::replace(nodes_[id].inputs.begin(), nodes_[id].inputs.end(), old_value, new_value);
    std::replace(nodes_[id].lists.begin(), nodes_[id].lists.end(), old_value, new_value);
  }
  std::replace(outputs_.begin(), outputs_.end(), old_value, new_value);
  update_roots();
}

void Graph::erase_node(NodeId node) { erase_nodes(std::span(&node, 1)); }

void Graph::erase_nodes(std::span<const NodeId> nodes) {
  std::vector<bool> doomed(nodes_.size(), false);
  for (const NodeId id : nodes) {
    node(id);
    doomed[id] = true;
  }
  const auto refuse = [&](ValueId value, std::string_view user) {
    throw Error(ErrorCode::kFailedPrecondition, "{} cannot be erased: {} uses its output %{}",
                nodes_[values_[value].producer].op->name(), user, values_[value].name);
  };
  const auto is_doomed = [&](ValueId value) {
    return value >= 0 && values_[value].kind == ValueKind::kNodeOutput && doomed[values_[value].producer];
  };
  for (const NodeId id : order_) {
    if (doomed[id]) continue;
    for (const ValueId input : nodes_[id].inputs) {
      if (is_doomed(input)) refuse(input, nodes_[id].op->name());
    }
  }
  for (const ValueId output : outputs_) {
    if (is_doomed(output)) refuse(output, "the graph");
  }
  std::erase_if(order_, [&](NodeId id) { return doomed[id]; });
  for (size_t id = 0; id < doomed.size(); ++id) {
    if (!doomed[id]) continue;
    for (const ValueId output : nodes_[id].outputs) {
      drop_name(output);
      values_[output] = Value();
    }
    nodes_[id] = Node();
  }
}

void Graph::erase_parameter(ValueId parameter) {
  const Value& value = this->value(parameter);
  if (value.kind != ValueKind::kParameter || is_output(parameter) || !users(parameter).empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "%{} cannot be erased: it is in use or no parameter", value.name);
  }
  drop_name(parameter);
  labels_.erase(value.label);
  std::erase(parameters_, parameter);
  values_[parameter] = Value();
  update_roots();
}

void Graph::move_before(NodeId node, NodeId next) {
  const std::string hazard = move_hazard(*this, node, next);
  if (!hazard.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "{} cannot be moved: {}", this->node(node).op->name(), hazard);
  }
  if (node == next) return;
  std::erase(order_, node);
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(position(next)), node);
}

void Graph::infer_again(NodeId id) {
  const std::vector<TensorMeta> metas = infer_outputs(*this, node(id));
  for (size_t i = 0; i < metas.size(); ++i) values_[output_of(id, i)].meta = metas[i];
}

size_t Graph::position(NodeId id) const {
  node(id);
  return static_cast<size_t>(std::find(order_.begin(), order_.end(), id) - order_.begin());
}

const Node& Graph::node(NodeId id) const {
  if (!has_node(id)) throw Error(ErrorCode::kInternal, "graph {} has no node {}", name_, id);
  return nodes_[id];
}

const Value& Graph::value(ValueId id) const {
  if (!has_value(id)) throw Error(ErrorCode::kInternal, "graph {} has no value {}", name_, id);
  return values_[id];
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto place = names_.find(name);
  if (place == names_.end()) return std::nullopt;
  return place->second;
}

ValueId Graph::add_value(Value value, std::string_view wished_name) {
  const ValueId id = static_cast<ValueId>(values_.size());
  value.name = unique_name(wished_name);
  value.root = id;
  names_.emplace(value.name, id);
  values_.push_back(std::move(value));
  return id;
}

std::string Graph::unique_name(std::string_view wished_name) {
  std::string name(wished_name.empty() ? "v" : wished_name);
  std::replace_if(name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '_');
  if (!names_.contains(name)) return name;
  int64_t& count = name_counts_[name];
  std::string numbered;
  do {
    numbered = fmt::format("{}_{}", name, ++count);
  } while (names_.contains(numbered));
  return numbered;
}

void Graph::update_roots() {
  // Parameters that overlap in memory form one group, represented by its first parameter.
  std::vector<std::pair<MemoryRange, ValueId>> ranges;
  for (const ValueId id : parameters_) {
    values_[id].root = id;
    if (const auto range = memory_range(values_[id].tensor)) ranges.emplace_back(*range, id);
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  for (size_t first = 0, last = 0; first < ranges.size(); first = last) {
    uintptr_t end = ranges[first].first.end;
    ValueId root = ranges[first].second;
    for (last = first + 1; last < ranges.size() && ranges[last].first.begin < end; ++last) {
      end = std::max(end, ranges[last].first.end);
      root = std::min(root, ranges[last].second);
    }
    for (size_t i = first; i < last; ++i) values_[ranges[i].second].root = root;
  }
  for (const NodeId id : order_) {
    const Node& node = nodes_[id];
    for (const ValueId output : node.outputs) values_[output].root = output;
    if (!node.op->traits().view || node.outputs.empty() || node.inputs.empty()) continue;
    if (has_value(node.inputs[0])) values_[node.outputs[0]].root = values_[node.inputs[0]].root;
  }
}

void Graph::drop_name(ValueId value) {
  const auto place = names_.find(values_[value].name);
  if (place != names_.end() && place->second == value) names_.erase(place);
}

NodeArguments arguments_of(const Node& node) {
  return {node.inputs, node.lists, node.attributes, node.source, node.stream, node.core_limit};
}

std::string stream_text(const Graph& graph, int32_t stream) {
  if (stream == 0) return "the method's own stream";
  const size_t index = static_cast<size_t>(stream) - 1;
  return index < graph.streams().size() ? fmt::format("stream '{}'", graph.streams()[index]) : "an unknown stream";
}

std::vector<int32_t> number_nodes(const Graph& graph) {
  std::vector<int32_t> positions(graph.node_limit(), -1);
  for (size_t i = 0; i < graph.order().size(); ++i) positions[graph.order()[i]] = static_cast<int32_t>(i);
  return positions;
}

std::vector<std::vector<NodeId>> all_users(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.value_limit());
  const auto add = [&](ValueId value, NodeId node) {
    if (graph.has_value(value) && (users[value].empty() || users[value].back() != node)) users[value].push_back(node);
  };
  for (const NodeId id : graph.order()) {
    for (const ValueId input : graph.node(id).inputs) add(input, id);
    for (const ValueId list : graph.node(id).lists) add(list, id);
  }
  return users;
}

}  // namespace reprise::graph
