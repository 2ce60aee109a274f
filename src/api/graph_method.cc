#include "api/graph_method.h"

#include "base/error.h"

namespace reprise::api {
namespace {

using compile::Guard;
using compile::Quantity;
using compile::Term;
using Kind = compile::Quantity::Kind;

class GraphGuards {
 public:
  GraphGuards(const graph::Graph& graph, const compile::MethodSpec& spec)
      : graph_(graph), spec_(spec), symbols_(graph.symbols().size()) {
    int32_t argument = 0;
    for (const graph::ValueId id : graph.inputs()) note(graph.value(id).meta.shape, argument++);
    for (const graph::ValueId id : graph.lists()) note(graph.value(id).length, {Kind::kLength, argument++, 0});
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i].has_quantity) continue;
      throw Error(ErrorCode::kInvalidArgument, "graph '{}': no input has the size {}", graph.name(),
                  graph.symbols()[i].name);
    }
  }

  void add_guards(compile::TracedMethod& traced) const {
    int32_t argument = 0;
    for (const graph::ValueId id : graph_.inputs()) {
      add_tensor(traced, graph_.value(id).meta, argument);
      traced.inputs.push_back(argument++);
    }
    for (const graph::ValueId id : graph_.lists()) {
      add_size(traced, {Kind::kLength, argument, 0}, graph_.value(id).length);
      traced.lists.push_back(argument++);
    }
    for (size_t i = 0; i < symbols_.size(); ++i) {
      const graph::SymDim& symbol = graph_.symbols()[i];
      traced.symbols.push_back(symbols_[i].quantity);
      add(traced,
          {.left = Term{.offset = symbol.min}, .relation = compile::Relation::kLessOrEqual, .right = symbols_[i]});
      add(traced,
          {.left = symbols_[i], .relation = compile::Relation::kLessOrEqual, .right = Term{.offset = symbol.max}});
    }
  }

 private:
  void note(const Shape& shape, int32_t argument) {
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      note(shape[axis], {Kind::kSize, argument, static_cast<int32_t>(axis)});
    }
  }
  void note(const Dim& dim, const Quantity& quantity) {
    if (dim.is_constant() || dim.scale() != 1 || dim.offset() != 0) return;
    Term& symbol = symbols_[static_cast<size_t>(dim.symbol())];
    if (!symbol.has_quantity) symbol = {.has_quantity = true, .quantity = quantity};
  }

  void add_tensor(compile::TracedMethod& traced, const TensorMeta& meta, int32_t argument) const {
    const auto quantity = [&](Kind kind, size_t axis) { return Quantity{kind, argument, static_cast<int32_t>(axis)}; };
    const auto value = [&](Kind kind, compile::GuardValue expected) {
      add(traced, {.left = {.has_quantity = true, .quantity = quantity(kind, 0)},
                   .by_value = true,
                   .value = std::move(expected)});
    };
    value(Kind::kGiven, true);
    value(Kind::kDType, std::string(name_of(meta.dtype)));
    value(Kind::kFormat, std::string(meta.format.name()));
    add_size(traced, quantity(Kind::kRank, 0), static_cast<int64_t>(meta.shape.rank()));
    for (size_t axis = 0; axis < meta.shape.rank(); ++axis) {
      add_size(traced, quantity(Kind::kSize, axis), meta.shape[axis]);
    }
    for (size_t axis = 0; axis < meta.shape.rank(); ++axis) {
      add_size(traced, quantity(Kind::kStride, axis), meta.strides[axis]);
    }
  }

  void add_size(compile::TracedMethod& traced, const Quantity& quantity, const Dim& dim) const {
    Term right{.offset = dim.offset()};
    if (!dim.is_constant()) {
      right = symbols_[static_cast<size_t>(dim.symbol())];
      if (right.quantity == quantity) return;
      right.scale = dim.scale();
      right.offset = dim.offset();
    }
    add(traced,
        {.left = {.has_quantity = true, .quantity = quantity}, .relation = compile::Relation::kEqual, .right = right});
  }

  void add(compile::TracedMethod& traced, Guard guard) const {
    const std::string_view path = spec_.where.file_name();
    guard.file = path.substr(path.find_last_of('/') + 1);
    guard.line = static_cast<int>(spec_.where.line());
    traced.guards.push_back(std::move(guard));
  }

  const graph::Graph& graph_;
  const compile::MethodSpec& spec_;
  std::vector<Term> symbols_;
};

}  // namespace

compile::MethodSpec spec_of(const graph::Graph& graph, std::source_location where) {
  compile::MethodSpec spec;
  spec.name = graph.name();
  spec.where = where;
  for (const graph::ValueId id : graph.inputs()) {
    spec.kinds.push_back(compile::ArgumentKind::kTensor);
    spec.names.push_back(graph.value(id).name);
  }
  for (const graph::ValueId id : graph.lists()) {
    spec.kinds.push_back(compile::ArgumentKind::kHostList);
    spec.names.push_back(graph.value(id).name);
  }
  return spec;
}

compile::TracedMethod traced_of(graph::Graph graph, const compile::MethodSpec& spec) {
  for (const graph::ValueId id : graph.parameters()) {
    const graph::Value& value = graph.value(id);
    if (value.tensor.defined() && value.tensor.data() != nullptr) continue;
    throw Error(ErrorCode::kInvalidArgument, "graph '{}': parameter '{}' is not bound to memory", graph.name(),
                value.label)
        .remedy("bind it with Graph::bind_parameter(), or make it an input");
  }
  compile::TracedMethod traced;
  GraphGuards(graph, spec).add_guards(traced);
  traced.graph = std::move(graph);
  return traced;
}

}  // namespace reprise::api
