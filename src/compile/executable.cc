#include "compile/executable.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/passes/event_closure.h"
#include "graph/infer.h"
#include "graph/stream_order.h"

namespace reprise::compile {
namespace {

TensorMeta at(const TensorMeta& meta, std::span<const int64_t> symbols) {
  TensorMeta concrete = meta;
  concrete.shape = meta.shape.at(symbols);
  return concrete;
}

/// What an event or a core limit does when the graph runs. Events are numbered as they come.
void bind_control(const graph::Node& node, BoundGraph::Node& bound, std::vector<std::string_view>& events) {
  if (node.op->name() == graph::kSetCoreLimit) {
    bound.kind = BoundGraph::Kind::kCoreLimit;
    bound.core_limit = {static_cast<int>(std::get<int64_t>(node.attributes[0])),
                        static_cast<int>(std::get<int64_t>(node.attributes[1]))};
    bound.source = node.source;
    return;
  }
  const std::string_view name = graph::event_name(node);
  if (name.empty()) {
    throw Error(ErrorCode::kUnsupported, "{}: nothing is known about what it does to its stream",
                graph::describe(node));
  }
  bound.kind = node.op->name() == graph::kRecordEvent ? BoundGraph::Kind::kRecord : BoundGraph::Kind::kWait;
  const auto known = std::find(events.begin(), events.end(), name);
  bound.event = static_cast<int32_t>(known - events.begin());
  if (known == events.end()) events.push_back(name);
}

}  // namespace

Executable::Executable(graph::Graph graph, std::string_view device, std::vector<int64_t> max_symbols)
    : graph_(std::move(graph)), device_(device), max_symbols_(std::move(max_symbols)) {
  REPRISE_CHECK(max_symbols_.size() == graph_.symbols().size());
  for (size_t i = 0; i < max_symbols_.size(); ++i) {
    const graph::SymDim& symbol = graph_.symbols()[i];
    if (max_symbols_[i] < symbol.min || max_symbols_[i] > symbol.max) {
      throw Error(ErrorCode::kInvalidArgument, "graph '{}': a plan for {} = {} is outside of the traced range {} to {}",
                  graph_.name(), symbol.name, max_symbols_[i], symbol.min, symbol.max);
    }
  }
  std::set<std::string> missing;
  for (const graph::NodeId id : graph_.order()) {
    const ops::OpDef& op = *graph_.node(id).op;
    if (op.traits().view || op.traits().control) continue;
    const ops::OpKernel* kernel = op.kernel(device_);
    if (kernel == nullptr) {
      missing.insert(op.name());
    } else if (kernel->output_storage != nullptr) {
      // Its users were traced with plain memory, and its bytes are not those of its shape.
      throw Error(ErrorCode::kUnsupported,
                  "{}: operator '{}' cannot be part of a graph: device '{}' lays out its result",
                  graph_.node(id).source, op.name(), device_)
          .remedy("run it once, when the model is loaded");
    }
  }
  if (!missing.empty()) {
    std::string names;
    for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kUnsupported, "device '{}' has no kernel for: {}", device_, names);
  }
  const std::string fault = lowering_fault(graph_);
  if (!fault.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "graph '{}': {}", graph_.name(), fault)
        .remedy("run the passes event_closure and lower_core_limits over it");
  }
  plan();
}

void Executable::plan() {
  value_interval_.assign(graph_.value_limit(), -1);
  placements_ = placements(graph_);
  workspace_interval_.assign(graph_.node_limit(), -1);
  workspace_bytes_.assign(graph_.node_limit(), 0);
  std::vector<MemoryInterval> intervals;
  // What a side stream touches may be touched at any time of the run, whatever the order of the nodes says: it keeps
  // its memory for the whole graph. What only the method's own stream touches is touched in that order.
  std::vector<bool> beside;  // by interval
  // Any live interval of a view's root lasts as long as the view.
  const auto touch = [&](graph::ValueId value, int32_t position, int32_t stream) {
    const int32_t interval = value_interval_[static_cast<size_t>(graph_.value(value).root)];
    if (interval < 0) return;
    intervals[static_cast<size_t>(interval)].last = position;
    if (stream != 0) beside[static_cast<size_t>(interval)] = true;
  };
  const std::vector<Tensor> largest = tensors_for(max_symbols_, nullptr, {});
  int32_t position = 0;
  for (const graph::NodeId id : graph_.order()) {
    const graph::Node& node = graph_.node(id);
    for (const graph::ValueId input : node.inputs) {
      if (input != graph::kAbsent) touch(input, position, node.stream);
    }
    if (!node.op->traits().view && !node.op->traits().control) {
      for (const graph::ValueId output : node.outputs) {
        // What is placed in another value lives in that one's interval, which begins with the first part.
        const auto& placement = placements_[static_cast<size_t>(output)];
        const graph::ValueId whole = placement ? graph_.node(placement->cat).outputs[0] : output;
        int32_t& interval = value_interval_[static_cast<size_t>(whole)];
        if (interval < 0) {
          interval = static_cast<int32_t>(intervals.size());
          const size_t bytes = at(graph_.value(whole).meta, max_symbols_).contiguous_bytes();
          intervals.push_back({bytes, position, position});
          beside.push_back(false);
        }
        intervals[static_cast<size_t>(interval)].last = position;
        if (node.stream != 0) beside[static_cast<size_t>(interval)] = true;
        value_interval_[static_cast<size_t>(output)] = interval;
      }
      const ops::OpKernel& kernel = *node.op->kernel(device_);
      if (kernel.max_workspace != nullptr) {
        std::vector<Tensor> inputs;
        std::vector<ops::HostList> lists;
        std::vector<ops::Attribute> attributes;
        const size_t bytes = kernel.max_workspace(call_of(node, max_symbols_, largest, inputs, lists, attributes));
        workspace_bytes_[static_cast<size_t>(id)] = bytes;
        workspace_interval_[static_cast<size_t>(id)] = static_cast<int32_t>(intervals.size());
        intervals.push_back({bytes, position, position});
        beside.push_back(node.stream != 0);
      }
    }
    ++position;
  }
  for (const graph::ValueId output : graph_.outputs()) touch(output, position, 0);
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (!beside[i]) continue;
    intervals[i].first = 0;
    intervals[i].last = position;
  }
  plan_ = plan_memory(intervals);
}

std::vector<Tensor> Executable::tensors_for(std::span<const int64_t> symbols, const std::shared_ptr<Storage>& arena,
                                            std::span<const Tensor> inputs) const {
  std::vector<Tensor> tensors(graph_.value_limit());
  for (const graph::ValueId id : graph_.parameters()) {
    const graph::Value& value = graph_.value(id);
    tensors[static_cast<size_t>(id)] = value.tensor.defined() ? value.tensor : Tensor(value.meta, nullptr);
  }
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const graph::Value& value = graph_.value(graph_.inputs()[i]);
    const TensorMeta meta = at(value.meta, symbols);
    if (inputs.empty()) {
      tensors[static_cast<size_t>(graph_.inputs()[i])] = Tensor(meta, nullptr);
      continue;
    }
    if (!(inputs[i].meta() == meta)) {
      throw Error(ErrorCode::kInvalidArgument, "graph '{}': input '{}' is {}, expected {}", graph_.name(), value.name,
                  inputs[i].meta().to_string(), meta.to_string());
    }
    tensors[static_cast<size_t>(graph_.inputs()[i])] = inputs[i];
  }
  for (const graph::NodeId id : graph_.order()) {
    const graph::Node& node = graph_.node(id);
    for (const graph::ValueId output : node.outputs) {
      const TensorMeta meta = at(graph_.value(output).meta, symbols);
      Tensor& tensor = tensors[static_cast<size_t>(output)];
      if (node.op->traits().view) {
        std::vector<Tensor> node_inputs;
        std::vector<ops::HostList> lists;
        std::vector<ops::Attribute> attributes;
        const ops::OpCall call = call_of(node, symbols, tensors, node_inputs, lists, attributes);
        tensor = node_inputs[0].with_meta(meta, node.op->view_offset(call));
      } else if (arena == nullptr) {
        tensor = Tensor(meta, nullptr);
      } else {
        const int32_t interval = value_interval_[static_cast<size_t>(output)];
        tensor =
            Tensor(meta, arena, plan_.offsets[static_cast<size_t>(interval)] + offset_in_interval(output, symbols));
      }
    }
  }
  return tensors;
}

size_t Executable::offset_in_interval(graph::ValueId value, std::span<const int64_t> symbols) const {
  const auto& placement = placements_[static_cast<size_t>(value)];
  if (!placement) return 0;
  size_t bytes = 0;
  const graph::Node& cat = graph_.node(placement->cat);
  for (size_t i = 0; i < placement->argument; ++i) {
    bytes += at(graph_.value(cat.inputs[i]).meta, symbols).contiguous_bytes();
  }
  return bytes;
}

ops::OpCall Executable::call_of(const graph::Node& node, std::span<const int64_t> symbols,
                                std::span<const Tensor> values, std::vector<Tensor>& inputs,
                                std::vector<ops::HostList>& lists, std::vector<ops::Attribute>& attributes) const {
  for (const graph::ValueId input : node.inputs) {
    inputs.push_back(input == graph::kAbsent ? Tensor() : values[static_cast<size_t>(input)]);
  }
  for (const graph::ValueId list : node.lists) {
    ops::HostList host_list;
    host_list.length = Dim(graph_.value(list).length.at(symbols));
    lists.push_back(host_list);
  }
  for (const ops::Attribute& attribute : node.attributes) {
    const Shape* shape = std::get_if<Shape>(&attribute);
    attributes.push_back(shape == nullptr ? attribute : ops::Attribute(shape->at(symbols)));
  }
  return ops::OpCall{*node.op, inputs, lists, attributes, {}, nullptr, Tensor(), nullptr};
}

std::unique_ptr<BoundGraph> Executable::bind(std::span<const int64_t> symbols, const std::shared_ptr<Storage>& arena,
                                             std::span<const Tensor> inputs) const {
  REPRISE_CHECK(symbols.size() == max_symbols_.size() && inputs.size() == graph_.inputs().size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    const graph::SymDim& symbol = graph_.symbols()[i];
    if (symbols[i] < symbol.min || symbols[i] > max_symbols_[i]) {
      throw Error(ErrorCode::kInvalidArgument, "graph '{}': {} is {}, the plan holds {} to {}", graph_.name(),
                  symbol.name, symbols[i], symbol.min, max_symbols_[i]);
    }
  }
  REPRISE_CHECK(arena != nullptr && arena->bytes() >= plan_.bytes);
  const std::vector<Tensor> tensors = tensors_for(symbols, arena, inputs);
  std::vector<int32_t> list_index(graph_.value_limit(), -1);
  for (size_t i = 0; i < graph_.lists().size(); ++i) {
    list_index[static_cast<size_t>(graph_.lists()[i])] = static_cast<int32_t>(i);
  }
  std::vector<BoundGraph::Node> nodes;
  std::vector<std::string_view> events;
  for (const graph::NodeId id : graph_.order()) {
    const graph::Node& node = graph_.node(id);
    if (node.op->traits().view) continue;
    // The parts of a placed cat already lie in its result.
    if (is_placed_cat(node) && placements_[static_cast<size_t>(node.inputs[0])].value_or(Placement{}).cat == id)
      continue;
    BoundGraph::Node bound;
    bound.op = node.op;
    bound.lane = node.stream;
    if (node.op->traits().control) {
      bind_control(node, bound, events);
      nodes.push_back(std::move(bound));
      continue;
    }
    bound.kernel = node.op->kernel(device_);
    std::vector<ops::HostList> lists;
    call_of(node, symbols, tensors, bound.inputs, lists, bound.attributes);
    bound.lists.resize(lists.size());
    for (const graph::ValueId list : node.lists) bound.list_indices.push_back(list_index[static_cast<size_t>(list)]);
    for (const graph::ValueId output : node.outputs) bound.outputs.push_back(tensors[static_cast<size_t>(output)]);
    const size_t workspace = workspace_bytes_[static_cast<size_t>(id)];
    if (workspace > 0) {
      const size_t interval = static_cast<size_t>(workspace_interval_[static_cast<size_t>(id)]);
      bound.workspace =
          Tensor(TensorMeta(DType::kU8, {static_cast<int64_t>(workspace)}), arena, plan_.offsets[interval]);
    }
    nodes.push_back(std::move(bound));
  }
  const bool side_streams =
      std::any_of(nodes.begin(), nodes.end(), [](const BoundGraph::Node& node) { return node.lane != 0; });
  std::vector<Tensor> outputs;
  for (const graph::ValueId output : graph_.outputs()) outputs.push_back(tensors[static_cast<size_t>(output)]);
  return std::make_unique<BoundGraph>(std::move(nodes), std::move(outputs),
                                      side_streams ? graph_.streams() : std::vector<std::string>(), events.size());
}

}  // namespace reprise::compile
