#include "graph/infer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace reprise::graph {
namespace {

/// Not less than the largest value of a dimension that has no fault, nor than any part of it: products of shapes are
/// formed part by part.
int64_t bound(const Dim& dim, std::span<const SymDim> symbols) {
  if (dim.is_constant()) return dim.offset();
  const SymDim& symbol = symbols[static_cast<size_t>(dim.symbol())];
  return std::abs(static_cast<int64_t>(dim.scale())) * std::max<int64_t>(symbol.max, 1) + std::abs(dim.offset());
}

/// Shape attributes may hold placeholders such as -1, but no numbers that overflow when they are multiplied.
std::string shape_attribute_fault(const Shape& shape, size_t symbols) {
  int64_t product = 1;
  for (const Dim& dim : shape) {
    if (!dim.is_constant() && static_cast<size_t>(dim.symbol()) >= symbols) {
      return fmt::format("has the value {}, with a symbol that the graph does not have", shape.to_string());
    }
    if (dim.offset() < -kMaxElements) return fmt::format("has the value {}, which is too small", shape.to_string());
    const int64_t factor = std::max({std::abs(dim.offset()), std::abs(static_cast<int64_t>(dim.scale())), int64_t{1}});
    if (factor > kMaxElements / product) {
      return fmt::format("has the value {}, which is too large", shape.to_string());
    }
    product *= factor;
  }
  return "";
}

constexpr std::array<std::string_view, 6> kKindNames = {"an int",  "a float", "a bool",
                                                        "a dtype", "a shape", "a string"};

std::string attribute_fault(const Graph& graph, const Node& node) {
  const ops::Schema& schema = node.op->schema();
  if (node.attributes.size() != schema.attributes.size()) {
    return fmt::format("has {} attributes, expected {}", node.attributes.size(), schema.attributes.size());
  }
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    const ops::AttributeSpec& spec = schema.attributes[i];
    const size_t kind = static_cast<size_t>(spec.kind);
    if (node.attributes[i].index() != kind) {
      return fmt::format("attribute '{}' is {}, expected {}", spec.name, kKindNames[node.attributes[i].index()],
                         kKindNames[kind]);
    }
    if (spec.kind != ops::AttributeKind::kShape) continue;
    const std::string fault = shape_attribute_fault(std::get<Shape>(node.attributes[i]), graph.symbols().size());
    if (!fault.empty()) return fmt::format("attribute '{}' {}", spec.name, fault);
  }
  return "";
}

}  // namespace

std::string dim_fault(const Dim& dim, std::span<const SymDim> symbols) {
  if (dim.is_constant()) {
    if (dim.offset() >= 0 && dim.offset() <= kMaxElements) return "";
    return fmt::format("has the size {}, expected 0 to {}", dim.offset(), kMaxElements);
  }
  const int32_t index = static_cast<int32_t>(dim.symbol());
  if (index < 0 || static_cast<size_t>(index) >= symbols.size()) {
    return fmt::format("has the size {}, but the graph has no symbol s{}", dim.to_string(), index);
  }
  if (dim.scale() > kMaxDimScale || dim.scale() < -kMaxDimScale || dim.offset() > kMaxElements ||
      dim.offset() < -kMaxElements) {
    return fmt::format("has the size {}, which is too large", dim.to_string());
  }
  const SymDim& symbol = symbols[static_cast<size_t>(index)];
  const int64_t smallest = std::min(dim.scale() * symbol.min, dim.scale() * symbol.max) + dim.offset();
  if (smallest < 0) {
    return fmt::format("has the size {}, which is negative for a {} within its range", dim.to_string(), symbol.name);
  }
  return "";
}

std::string meta_fault(const TensorMeta& meta, std::span<const SymDim> symbols) {
  if (static_cast<size_t>(meta.dtype) > static_cast<size_t>(DType::kBool)) return "has an unknown dtype";
  const std::string_view format = meta.format.name();
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
  if (format.empty() || !std::all_of(format.begin(), format.end(), plain)) {
    return fmt::format("has a format with the name '{}'", format);
  }
  int64_t elements = 1;
  for (size_t axis = 0; axis < meta.shape.rank(); ++axis) {
    const Dim& dim = meta.shape[axis];
    const std::string fault = dim_fault(dim, symbols);
    if (!fault.empty()) return fmt::format("axis {} {}", axis, fault);
    if (axis > 0 && !dim.is_constant()) {
      return fmt::format("has the shape {}, but only the first axis may be symbolic", meta.shape.to_string());
    }
    const int64_t size = std::max<int64_t>(bound(dim, symbols), 1);
    if (axis > 0 && size > kMaxInnerSize) return fmt::format("axis {} has the size {}, which is too large", axis, size);
    if (size > kMaxElements / elements) return fmt::format("has too many elements: {}", meta.shape.to_string());
    elements *= size;
  }
  int64_t extent = 1;
  for (size_t axis = 0; axis < meta.shape.rank(); ++axis) {
    const int64_t size = std::max<int64_t>(bound(meta.shape[axis], symbols), 1);
    const int64_t stride = meta.strides[axis];
    if (stride < 0) return fmt::format("has the negative stride {}", stride);
    if (stride > kMaxElements || (size > 1 && stride > kMaxElements / size)) {
      return fmt::format("has the stride {}, which is too large", stride);
    }
    extent += (size - 1) * stride;
    if (extent > kMaxElements) return "reaches too far by its strides";
  }
  return "";
}

TensorMeta checked_meta(TensorMeta meta, std::span<const SymDim> symbols, std::string_view name) {
  for (size_t axis = meta.shape.rank(); axis < meta.strides.size(); ++axis) meta.strides[axis] = 0;
  const std::string fault = meta_fault(meta, symbols);
  if (!fault.empty()) throw Error(ErrorCode::kInvalidArgument, "tensor '{}' {}", name, fault);
  return meta;
}

std::string describe(const Node& node) {
  const std::string_view op = node.op == nullptr ? "?" : std::string_view(node.op->name());
  return node.source.empty() ? std::string(op) : fmt::format("{}: {}", node.source, op);
}

std::string argument_fault(const Graph& graph, const Node& node) {
  const ops::Schema& schema = node.op->schema();
  if (node.inputs.size() != schema.tensors.size()) {
    return fmt::format("has {} tensor arguments, expected {}", node.inputs.size(), schema.tensors.size());
  }
  if (node.lists.size() != schema.lists.size()) {
    return fmt::format("has {} host list arguments, expected {}", node.lists.size(), schema.lists.size());
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ops::TensorSpec& spec = schema.tensors[i];
    if (node.inputs[i] == kAbsent) {
      if (!spec.optional) return fmt::format("argument '{}' is absent, but not optional", spec.name);
    } else if (!graph.has_value(node.inputs[i])) {
      return fmt::format("argument '{}' is value {}, which the graph does not have", spec.name, node.inputs[i]);
    } else if (!graph.value(node.inputs[i]).is_tensor()) {
      return fmt::format("argument '{}' is the host list %{}, expected a tensor", spec.name,
                         graph.value(node.inputs[i]).name);
    }
  }
  for (size_t i = 0; i < node.lists.size(); ++i) {
    if (!graph.has_value(node.lists[i])) {
      return fmt::format("argument '{}' is value {}, which the graph does not have", schema.lists[i].name,
                         node.lists[i]);
    }
    if (graph.value(node.lists[i]).kind != ValueKind::kHostList) {
      return fmt::format("argument '{}' is the tensor %{}, expected a host list", schema.lists[i].name,
                         graph.value(node.lists[i]).name);
    }
  }
  if (node.op->traits().view && (node.inputs.empty() || node.inputs[0] == kAbsent || schema.outputs.empty())) {
    return "is a view, but has nothing to look at or no result";
  }
  return attribute_fault(graph, node);
}

std::vector<TensorMeta> infer_outputs(const Graph& graph, const Node& node) {
  const std::string fault = argument_fault(graph, node);
  if (!fault.empty()) throw Error(ErrorCode::kInvalidArgument, "{} {}", describe(node), fault);
  std::vector<TensorMeta> metas(node.op->schema().outputs.size());
  if (!node.op->has_shape_function()) {
    throw Error(ErrorCode::kUnsupported, "{} has no shape function", describe(node));
  }
  std::vector<Tensor> inputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(id == kAbsent ? Tensor() : Tensor::traced(graph.value(id).meta, id));
  }
  std::vector<ops::HostList> lists;
  for (const ValueId id : node.lists) lists.push_back(ops::HostList::traced(graph.value(id).length, id));
  const ops::OpCall call{.op = *node.op,
                         .inputs = inputs,
                         .lists = lists,
                         .attributes = node.attributes,
                         .outputs = {},
                         .stream = nullptr,
                         .workspace = {},
                         .tiling = nullptr};
  try {
    node.op->infer(call, metas);
  } catch (Error& error) {
    // Checks of shape functions name their operator; others, such as a symbolic dimension asked for its value, do not.
    if (!error.message().starts_with(node.op->name() + ":")) error.add_context(node.op->name());
    if (!node.source.empty()) error.add_context(node.source);
    throw;
  }
  for (size_t i = 0; i < metas.size(); ++i) {
    for (size_t axis = metas[i].shape.rank(); axis < metas[i].strides.size(); ++axis) metas[i].strides[axis] = 0;
    const std::string meta_error = meta_fault(metas[i], graph.symbols());
    if (!meta_error.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "{}: result '{}' {}", describe(node), node.op->schema().outputs[i],
                  meta_error);
    }
  }
  return metas;
}

}  // namespace reprise::graph
