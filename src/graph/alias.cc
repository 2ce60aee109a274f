#include "graph/alias.h"

#include <algorithm>

#include "base/error.h"
#include "graph/infer.h"
#include "graph/stream_order.h"

namespace reprise::graph {
namespace {

bool touches(const Graph& graph, const Node& node, ValueId root) {
  const auto has_root = [&](ValueId id) { return graph.has_value(id) && graph.value(id).root == root; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), has_root) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), has_root);
}

bool uses_result_of(const Node& user, const Node& producer) {
  return std::any_of(producer.outputs.begin(), producer.outputs.end(), [&](ValueId output) {
    return std::find(user.inputs.begin(), user.inputs.end(), output) != user.inputs.end();
  });
}

/// Why two nodes, `first` running before `second`, cannot change places.
std::string order_hazard(const Graph& graph, const Node& first, const Node& second) {
  std::string control = control_hazard(first, second);
  if (!control.empty()) return control;
  if (uses_result_of(second, first)) {
    return fmt::format("{} uses a result of {}", second.op->name(), first.op->name());
  }
  for (const auto& [writer, other] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    for (const ValueId root : written_roots(graph, *writer)) {
      if (touches(graph, *other, root)) {
        return fmt::format("{} writes %{}, which {} touches", writer->op->name(), graph.value(root).name,
                           other->op->name());
      }
    }
  }
  return "";
}

/// A value and what is a view of it, directly or not.
std::vector<bool> value_and_views(const Graph& graph, ValueId value) {
  std::vector<bool> members(graph.value_limit(), false);
  members[value] = true;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.op->traits().view || node.inputs.empty() || node.outputs.empty()) continue;
    if (node.inputs[0] != kAbsent && members[node.inputs[0]]) members[node.outputs[0]] = true;
  }
  return members;
}

/// The place behind the last node that takes one of the values; behind all nodes where the graph returns one.
size_t end_of_use(const Graph& graph, const std::vector<bool>& values) {
  const auto member = [&](ValueId id) { return id != kAbsent && values[id]; };
  if (std::any_of(graph.outputs().begin(), graph.outputs().end(), member)) return graph.order().size();
  for (size_t i = graph.order().size(); i-- > 0;) {
    const Node& node = graph.node(graph.order()[i]);
    if (std::any_of(node.inputs.begin(), node.inputs.end(), member)) return i + 1;
  }
  return 0;
}

}  // namespace

std::optional<MemoryRange> memory_range(const Tensor& tensor) {
  if (tensor.data() == nullptr || !tensor.shape().is_constant()) return std::nullopt;
  int64_t extent = 1;
  if (tensor.format().is_plain()) {
    for (size_t axis = 0; axis < tensor.rank(); ++axis) extent += (tensor.size(axis) - 1) * tensor.stride(axis);
  } else {
    extent = tensor.shape().elements();
  }
  if (extent <= 0 || tensor.shape().elements() == 0) return std::nullopt;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(tensor.data());
  return MemoryRange{begin, begin + static_cast<uintptr_t>(extent) * size_of(tensor.dtype())};
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const auto first = memory_range(a);
  const auto second = memory_range(b);
  return first && second && first->begin < second->end && second->begin < first->end;
}

ValueId alias_root(const Graph& graph, ValueId value) { return graph.value(value).root; }

std::vector<ValueId> written_roots(const Graph& graph, const Node& node) {
  std::vector<ValueId> roots;
  const auto& specs = node.op->schema().tensors;
  for (size_t i = 0; i < std::min(specs.size(), node.inputs.size()); ++i) {
    if (specs[i].mutated && graph.has_value(node.inputs[i])) roots.push_back(graph.value(node.inputs[i]).root);
  }
  return roots;
}

bool writes(const Graph& graph, const Node& node, ValueId root) {
  const auto& specs = node.op->schema().tensors;
  for (size_t i = 0; i < std::min(specs.size(), node.inputs.size()); ++i) {
    if (specs[i].mutated && graph.has_value(node.inputs[i]) && graph.value(node.inputs[i]).root == root) return true;
  }
  return false;
}

std::string control_hazard(const Node& a, const Node& b) {
  for (const auto& [node, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    // An event's mark is where its stream stands, and a wait means the last record that was made by any stream.
    if (!node->op->traits().control || (node->stream != other->stream && !other->op->traits().control)) continue;
    return fmt::format("{} on its stream stands between", describe(*node));
  }
  return "";
}

std::string move_hazard(const Graph& graph, NodeId node, NodeId next) {
  const size_t from = graph.position(node);
  const size_t to = graph.position(next);
  const Node& moved = graph.node(node);
  for (size_t i = to; i < from; ++i) {
    std::string hazard = order_hazard(graph, graph.node(graph.order()[i]), moved);
    if (!hazard.empty()) return hazard;
  }
  for (size_t i = from + 1; i < to; ++i) {
    std::string hazard = order_hazard(graph, moved, graph.node(graph.order()[i]));
    if (!hazard.empty()) return hazard;
  }
  return "";
}

std::string replace_hazard(const Graph& graph, ValueId old_value, ValueId new_value) {
  const Value& from = graph.value(old_value);
  const Value& to = graph.value(new_value);
  if (!from.is_tensor() || !to.is_tensor() || from.root == to.root) return "";
  const size_t start = from.producer == kNoNode ? 0 : graph.position(from.producer) + 1;
  const size_t end = end_of_use(graph, value_and_views(graph, old_value));
  // Memory that only the old value and its views name may be written: those writes move to the new value with its uses.
  const bool old_is_own = from.root == old_value && from.kind == ValueKind::kNodeOutput;
  bool old_written = false;
  for (size_t i = start; i < end; ++i) {
    const Node& node = graph.node(graph.order()[i]);
    if (writes(graph, node, to.root)) {
      return fmt::format("{} overwrites %{} in between", describe(node), to.name);
    }
    if (!writes(graph, node, from.root)) continue;
    if (!old_is_own) return fmt::format("{} overwrites %{} in between", describe(node), from.name);
    old_written = true;
  }
  std::string stream_hazard = cross_stream_replace_hazard(graph, old_value, new_value);
  if (!stream_hazard.empty() || !old_written) return stream_hazard;
  // The writes would now hit the new value's memory: nobody else may look at it.
  const bool new_is_used = std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                       [&](ValueId id) { return graph.value(id).root == to.root; }) ||
                           std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId id) {
                             const auto& inputs = graph.node(id).inputs;
                             return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
                               return input != kAbsent && graph.value(input).root == to.root;
                             });
                           });
  if (to.kind != ValueKind::kNodeOutput || to.root != new_value || new_is_used) {
    return fmt::format("what overwrites %{} would overwrite %{}, which others use", from.name, to.name);
  }
  return "";
}

}  // namespace reprise::graph
