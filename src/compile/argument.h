#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "tensor/tensor.h"

namespace reprise::compile {

/// A tensor that stays where it is from call to call, such as a weight: it is never copied, and captured graphs refer
/// to its address.
struct Parameter {
  Tensor tensor;
  operator const Tensor&() const { return tensor; }  // NOLINT: operators take it as the tensor that it is
};

/// One argument of a compiled method: tensors, lists of host integers (borrowed for the call), and host scalars.
using Argument = std::variant<Tensor, Parameter, std::span<const int32_t>, int64_t, double, bool, std::string>;

/// How a method takes an argument.
enum class ArgumentKind {
  kTensor,
  kParameter,
  kHostList,
  kInteger,    ///< an integer that the method may branch on: guarded by its value
  kDimension,  ///< an integer that may become a symbol of the graph
  kFloat,
  kBool,
  kString,
};

/// "tensor", "parameter", "host list", "integer", "dimension", "float", "bool", "string".
std::string_view name_of(ArgumentKind kind);
/// Whether an argument can be given where this kind is expected.
bool fits(ArgumentKind kind, const Argument& argument);
/// The tensor of a tensor or a parameter; null for others.
const Tensor* tensor_of(const Argument& argument);

}  // namespace reprise::compile
