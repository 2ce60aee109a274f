#include "compile/pattern_context.h"

#include <algorithm>

#include "base/error.h"
#include "compile/tracer.h"

namespace reprise::compile {
namespace {

template <typename Declarations>
size_t index_of(const Declarations& declarations, std::string_view name, std::string_view what) {
  std::string known;
  for (size_t i = 0; i < declarations.size(); ++i) {
    if (declarations[i].name == name) return i;
    known += (known.empty() ? "" : ", ") + declarations[i].name;
  }
  throw Error(ErrorCode::kInvalidArgument, "a pattern asks for the {} '{}', which it does not declare", what, name)
      .remedy(known.empty() ? "it declares none" : "it declares " + known);
}

template <typename Type>
const Type& scalar_as(const ops::Attribute& value, std::string_view name, std::string_view kind) {
  const Type* typed = std::get_if<Type>(&value);
  if (typed == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "a pattern asks for scalar '{}' as {}, it is {}", name, kind,
                ops::to_string(value));
  }
  return *typed;
}

}  // namespace

const Tensor& PatternContext::operator[](std::string_view name) const {
  return tensors_[index_of(names_.tensors, name, "tensor")];
}

const ops::HostList& PatternContext::list(std::string_view name) const {
  return lists_[index_of(names_.lists, name, "host list")];
}

const ops::Attribute& PatternContext::scalar(std::string_view name) const {
  return scalars_[index_of(names_.scalars, name, "scalar")];
}

double PatternContext::number(std::string_view name) const { return scalar_as<double>(scalar(name), name, "a number"); }

int64_t PatternContext::integer(std::string_view name) const {
  return scalar_as<int64_t>(scalar(name), name, "an integer");
}

DType PatternContext::dtype(std::string_view name) const { return scalar_as<DType>(scalar(name), name, "a dtype"); }

bool uses_scopes(const graph::Graph& side) {
  return !side.streams().empty() || std::any_of(side.order().begin(), side.order().end(), [&](graph::NodeId id) {
    const graph::Node& node = side.node(id);
    return node.op->traits().control || !(node.core_limit == device::CoreLimit{});
  });
}

TracedPattern trace_pattern(const ops::Registry& registry, const std::string& name, const PatternFunction& function,
                            PatternContext::Names names, const PatternArguments& arguments) {
  Tracer tracer(registry, name);
  for (const graph::SymDim& symbol : arguments.symbols) tracer.symbol(symbol.name, symbol.min, symbol.max);
  std::vector<Tensor> tensors;
  std::vector<ops::HostList> lists;
  std::vector<graph::ValueId> tensor_values;
  std::vector<graph::ValueId> list_values;
  for (size_t i = 0; i < names.tensors.size(); ++i) {
    tensors.push_back(tracer.input(names.tensors[i].name, arguments.tensors[i]));
    tensor_values.push_back(tensors.back().value());
  }
  for (size_t i = 0; i < names.lists.size(); ++i) {
    lists.push_back(tracer.host_list(names.lists[i].name, arguments.lists[i]));
    list_values.push_back(lists.back().value);
  }
  PatternContext context(tracer, names, std::move(tensors), std::move(lists), arguments.scalars);
  const std::vector<Tensor> outputs = function(context);
  return {tracer.finish(outputs), std::move(tensor_values), std::move(list_values)};
}

}  // namespace reprise::compile
