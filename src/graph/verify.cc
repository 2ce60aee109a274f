#include "graph/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"
#include "graph/stream_order.h"

namespace reprise::graph {
namespace {

/// Walks a graph once and writes down what is wrong. Nothing about the graph is taken for granted.
class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph), defined_(graph.value_limit(), false) {}

  std::vector<std::string> run() {
    check_symbols();
    check_names();
    for (const ValueId id : graph_.inputs()) check_outer_value(id, ValueKind::kInput, "an input");
    for (const ValueId id : graph_.parameters()) check_outer_value(id, ValueKind::kParameter, "a parameter");
    for (const ValueId id : graph_.lists()) check_outer_value(id, ValueKind::kHostList, "a host list");
    check_order();
    for (const NodeId id : graph_.order()) check_node(id);
    check_outputs();
    // What races is only asked of a graph that is sound otherwise.
    if (faults_.empty()) faults_ = stream_faults(graph_);
    return std::move(faults_);
  }

 private:
  template <typename... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_symbols() {
    std::set<std::string_view> names;
    for (const SymDim& symbol : graph_.symbols()) {
      if (!names.insert(symbol.name).second) report("two symbols are called '{}'", symbol.name);
      if (symbol.min < 0 || symbol.min > symbol.max || symbol.max > kMaxSymbolValue) {
        report("symbol '{}' has the range [{}, {}]", symbol.name, symbol.min, symbol.max);
      }
    }
  }

  void check_names() {
    std::set<std::string_view> names;
    std::set<std::string_view> labels;
    for (size_t i = 0; i < graph_.value_limit(); ++i) {
      const ValueId id = static_cast<ValueId>(i);
      if (!graph_.has_value(id)) continue;
      const Value& value = graph_.value(id);
      if (value.name.empty()) report("value {} has no name", id);
      if (!names.insert(value.name).second) report("two values are called %{}", value.name);
      if (value.kind != ValueKind::kParameter) continue;
      if (value.label.empty()) report("parameter %{} has no label", value.name);
      if (!labels.insert(value.label).second) report("two parameters are called '{}'", value.label);
    }
  }

  void check_outer_value(ValueId id, ValueKind kind, std::string_view what) {
    if (!graph_.has_value(id) || graph_.value(id).kind != kind) {
      report("value {} is listed as {}, but is none", id, what);
      return;
    }
    const Value& value = graph_.value(id);
    if (defined_[id]) report("%{} is listed twice", value.name);
    defined_[id] = true;
    const std::string fault = kind == ValueKind::kHostList ? dim_fault(value.length, graph_.symbols())
                                                           : meta_fault(value.meta, graph_.symbols());
    if (!fault.empty()) report("%{} {}", value.name, fault);
    if (kind != ValueKind::kParameter) {
      if (kind == ValueKind::kInput && value.root != id) report("%{} has a wrong alias root", value.name);
      return;
    }
    if (!value.meta.shape.is_constant()) report("parameter %{} has a symbolic shape", value.name);
    if (value.tensor.defined() && !(value.tensor.meta() == value.meta)) {
      report("parameter %{} is {}, but is bound to {}", value.name, value.meta.to_string(),
             value.tensor.meta().to_string());
    }
  }

  void check_order() {
    std::vector<bool> seen(graph_.node_limit(), false);
    for (const NodeId id : graph_.order()) {
      if (!graph_.has_node(id)) {
        report("the order names node {}, which the graph does not have", id);
      } else if (seen[id]) {
        report("{} is twice in the order", describe(graph_.node(id)));
      } else {
        seen[id] = true;
      }
    }
    for (size_t id = 0; id < seen.size(); ++id) {
      if (graph_.has_node(static_cast<NodeId>(id)) && !seen[id]) {
        report("{} is not in the order", describe(graph_.node(static_cast<NodeId>(id))));
      }
    }
  }

  void check_node(NodeId id) {
    if (!graph_.has_node(id)) return;
    const Node& node = graph_.node(id);
    const std::string fault = argument_fault(graph_, node);
    if (!fault.empty()) report("{} {}", describe(node), fault);
    bool usable = fault.empty();
    for (const std::vector<ValueId>* arguments : {&node.inputs, &node.lists}) {
      for (const ValueId argument : *arguments) {
        if (argument == kAbsent || !graph_.has_value(argument) || defined_[argument]) continue;
        report("{} uses %{} before it is made", describe(node), graph_.value(argument).name);
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) usable = check_output(id, i) && usable;
    if (node.outputs.size() != node.op->schema().outputs.size()) {
      report("{} has {} results, expected {}", describe(node), node.outputs.size(), node.op->schema().outputs.size());
      usable = false;
    }
    if (!usable) return;
    check_metas(node);
    check_memory(node);
    check_scopes(node);
  }

  bool check_output(NodeId id, size_t index) {
    const Node& node = graph_.node(id);
    const ValueId output = node.outputs[index];
    if (!graph_.has_value(output)) {
      report("{} has the result {}, which the graph does not have", describe(node), output);
      return false;
    }
    const Value& value = graph_.value(output);
    if (value.kind != ValueKind::kNodeOutput || value.producer != id || value.output_index != index) {
      report("%{} is not what {} makes", value.name, describe(node));
      return false;
    }
    if (defined_[output]) report("%{} is made twice", value.name);
    defined_[output] = true;
    return true;
  }

  void check_scopes(const Node& node) {
    if (node.stream < 0 || static_cast<size_t>(node.stream) > graph_.streams().size()) {
      report("{} is on stream {}, the graph has {} side streams", describe(node), node.stream, graph_.streams().size());
    }
    const device::CoreLimit& limit = node.core_limit;
    if (limit.matrix_cores < 0 || limit.vector_cores < 0) {
      report("{} has a limit of ({}, {}) cores", describe(node), limit.matrix_cores, limit.vector_cores);
    }
  }

  void check_metas(const Node& node) {
    std::vector<TensorMeta> metas;
    try {
      metas = infer_outputs(graph_, node);
    } catch (const Error& error) {
      report("{}", error.what());
      return;
    }
    for (size_t i = 0; i < metas.size(); ++i) {
      const Value& value = graph_.value(node.outputs[i]);
      if (value.meta == metas[i]) continue;
      report("{}: %{} is {}, but the shape function says {}", describe(node), value.name, value.meta.to_string(),
             metas[i].to_string());
    }
  }

  void check_memory(const Node& node) {
    const auto& specs = node.op->schema().tensors;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kAbsent || !specs[i].mutated) continue;
      for (size_t j = 0; j < node.inputs.size(); ++j) {
        if (j == i || node.inputs[j] == kAbsent || (specs[j].mutated && j < i)) continue;
        if (graph_.value(node.inputs[i]).root != graph_.value(node.inputs[j]).root) continue;
        report("{} mutates its argument '{}', which may share memory with '{}'", describe(node), specs[i].name,
               specs[j].name);
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& output = graph_.value(node.outputs[i]);
      const bool view = i == 0 && node.op->traits().view;
      if (output.root != (view ? graph_.value(node.inputs[0]).root : node.outputs[i])) {
        report("%{} has a wrong alias root", output.name);
      }
      if (view) check_view(node, graph_.value(node.inputs[0]).meta, output.meta);
    }
  }

  /// At both ends of its symbol's range, a plain view must not reach beyond plain memory of the same dtype.
  void check_view(const Node& node, const TensorMeta& base, const TensorMeta& view) {
    if (!base.format.is_plain() || !view.format.is_plain()) return;
    for (const bool largest : {false, true}) {
      std::vector<int64_t> values;
      for (const SymDim& symbol : graph_.symbols()) values.push_back(largest ? symbol.max : symbol.min);
      const int64_t available = extent_bytes(base, values);
      const int64_t wanted = extent_bytes(view, values);
      if (wanted <= available) continue;
      report("{}: the view {} reaches beyond {}", describe(node), view.to_string(), base.to_string());
      return;
    }
  }

  static int64_t extent_bytes(const TensorMeta& meta, std::span<const int64_t> symbols) {
    const Shape shape = meta.shape.at(symbols);
    int64_t extent = 1;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      if (shape.size(axis) == 0) return 0;
      extent += (shape.size(axis) - 1) * meta.strides[axis];
    }
    return extent * static_cast<int64_t>(size_of(meta.dtype));
  }

  void check_outputs() {
    for (const ValueId id : graph_.outputs()) {
      if (!graph_.has_value(id)) {
        report("the graph returns value {}, which it does not have", id);
      } else if (!graph_.value(id).is_tensor()) {
        report("the graph returns the host list %{}", graph_.value(id).name);
      } else if (!defined_[id]) {
        report("the graph returns %{}, which nothing makes", graph_.value(id).name);
      }
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults(const Graph& graph) { return Checker(graph).run(); }

void verify(const Graph& graph) {
  const std::vector<std::string> found = faults(graph);
  if (found.empty()) return;
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) text += (i == 0 ? "" : "; ") + found[i];
  if (found.size() > kShown) text += fmt::format("; and {} more", found.size() - kShown);
  throw Error(ErrorCode::kInternal, "graph {} is not sound: {}", graph.name(), text);
}

}  // namespace reprise::graph
