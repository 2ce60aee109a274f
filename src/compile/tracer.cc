#include "compile/tracer.h"

#include "base/error.h"
#include "graph/infer.h"
#include "graph/stream_order.h"

namespace reprise::compile {
namespace {

/// What tells one tensor of a model from another: its address, or without memory the storage object that stands for it
/// and the place there.
std::pair<const void*, size_t> identity(const Tensor& tensor) {
  if (tensor.data() != nullptr) return {tensor.data(), 0};
  return {tensor.storage().get(), tensor.offset_bytes()};
}

[[noreturn]] void break_graph(const ops::OpDef& op, const std::string& source, std::string_view why,
                              std::string remedy) {
  throw Error(ErrorCode::kGraphBreak, "{}: operator '{}' cannot be part of a graph: {}", source, op.name(), why)
      .remedy(std::move(remedy));
}

}  // namespace

Tracer::Tracer(const ops::Registry& registry, std::string method) : registry_(registry), graph_(std::move(method)) {}

Symbol Tracer::symbol(std::string_view name, int64_t min, int64_t max) { return graph_.add_symbol(name, min, max); }

Tensor Tracer::input(std::string_view name, const TensorMeta& meta) {
  return Tensor::traced(meta, graph_.add_input(name, meta));
}

ops::HostList Tracer::host_list(std::string_view name, Dim length) {
  return ops::HostList::traced(length, graph_.add_host_list(name, length));
}

void Tracer::name_parameter(std::string_view label, const Tensor& tensor) {
  if (identity(tensor).first != nullptr) labels_.emplace(identity(tensor), label);
}

graph::ValueId Tracer::value_of(const Tensor& tensor, const ops::OpDef& op, const std::string& source) {
  if (!tensor.defined()) return graph::kAbsent;
  if (tensor.is_traced()) return tensor.value();
  if (identity(tensor).first == nullptr) {
    break_graph(op, source, "an argument has neither memory nor a storage that could name it",
                "build weights with the weight builder");
  }
  // Views of one weight share its address but not its metadata; each is a parameter of its own.
  const auto known = labels_.find(identity(tensor));
  std::string label = known == labels_.end() ? fmt::format("constant_{}", unnamed_++) : known->second;
  if (const auto same = graph_.find_parameter(label); same && !(graph_.value(*same).meta == tensor.meta())) {
    label += fmt::format("#{}", unnamed_++);
  }
  if (known == labels_.end()) labels_.emplace(identity(tensor), label);
  return graph_.add_parameter(label, tensor);
}

void Tracer::dispatch(std::string_view op_name, std::span<const Tensor> inputs, std::span<const ops::HostList> lists,
                      std::span<const ops::Attribute> attributes, std::span<Tensor> outputs,
                      std::source_location where) {
  const ops::OpDef& op = registry_.get(op_name);
  const std::string source = ops::source_text(where);
  if (op.traits().random) {
    break_graph(op, source, "it draws random numbers, which every replay would repeat",
                "draw them outside of the method");
  }
  if (op.traits().syncs) {
    break_graph(op, source, "it reads device data on the host",
                "keep the value on the device, or pass it as an argument");
  }
  if (!op.has_shape_function()) {
    break_graph(op, source, "it has no shape function", "give the operator one when it is registered");
  }
  graph::NodeArguments arguments;
  arguments.source = source;
  arguments.stream = scopes_.stream();
  arguments.core_limit = scopes_.core_limit();
  arguments.attributes.assign(attributes.begin(), attributes.end());
  for (const Tensor& input : inputs) arguments.inputs.push_back(value_of(input, op, source));
  for (const ops::HostList& list : lists) {
    if (!list.is_traced()) {
      break_graph(op, source, "a host list is a constant", "pass the list as an argument of the method");
    }
    arguments.lists.push_back(list.value);
  }
  const graph::NodeId node = graph_.add_node(op, std::move(arguments));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const graph::ValueId value = graph_.output_of(node, i);
    outputs[i] = Tensor::traced(graph_.value(value).meta, value);
  }
}

void Tracer::scope(const ops::ScopeChange& change, std::source_location where) {
  if (const auto* enter = std::get_if<ops::EnterStream>(&change)) {
    ops::ScopeStack::check_name(enter->name, "stream");
    scopes_.enter_stream(enter->scope, graph_.add_stream(enter->name), where);
  } else if (const auto* limit = std::get_if<ops::EnterCoreLimit>(&change)) {
    // Which device will run the graph is not known yet.
    scopes_.enter_core_limit(limit->scope, limit->limit, 0, where);
  } else if (const auto* exit = std::get_if<ops::ExitScope>(&change)) {
    scopes_.exit(*exit);
  } else if (const auto* record = std::get_if<ops::RecordEvent>(&change)) {
    add_event(graph::kRecordEvent, record->name, where);
  } else if (const auto* wait = std::get_if<ops::WaitEvent>(&change)) {
    add_event(graph::kWaitEvent, wait->name, where);
  }
}

void Tracer::add_event(std::string_view op, std::string_view event, std::source_location where) {
  ops::ScopeStack::check_name(event, "event");
  graph::NodeArguments arguments;
  arguments.attributes = std::vector<ops::Attribute>{std::string(event)};
  arguments.source = ops::source_text(where);
  arguments.stream = scopes_.stream();
  graph_.add_node(registry_.get(op), std::move(arguments));
}

graph::Graph Tracer::finish(std::span<const Tensor> outputs) {
  scopes_.finish();
  std::vector<graph::ValueId> values;
  for (const Tensor& output : outputs) {
    if (!output.is_traced()) {
      throw Error(ErrorCode::kGraphBreak, "method '{}' returns a tensor that no operator of it made", graph_.name())
          .remedy("return a copy of it, or pass it as an argument");
    }
    values.push_back(output.value());
  }
  graph_.set_outputs(std::move(values));
  labels_.clear();
  graph::check_streams(graph_);
  return std::move(graph_);
}

std::string Tracer::last_node() const {
  return graph_.order().empty() ? "" : graph::describe(graph_.node(graph_.order().back()));
}

}  // namespace reprise::compile
