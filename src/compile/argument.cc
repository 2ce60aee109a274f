#include "compile/argument.h"

#include <string_view>

namespace reprise::compile {

std::string_view name_of(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return "tensor";
    case ArgumentKind::kParameter:
      return "parameter";
    case ArgumentKind::kHostList:
      return "host list";
    case ArgumentKind::kInteger:
      return "integer";
    case ArgumentKind::kDimension:
      return "dimension";
    case ArgumentKind::kFloat:
      return "float";
    case ArgumentKind::kBool:
      return "bool";
    case ArgumentKind::kString:
      return "string";
  }
  return "unknown";
}

bool fits(ArgumentKind kind, const Argument& argument) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return std::holds_alternative<Tensor>(argument);
    case ArgumentKind::kParameter:
      return std::holds_alternative<Parameter>(argument);
    case ArgumentKind::kHostList:
      return std::holds_alternative<std::span<const int32_t>>(argument);
    case ArgumentKind::kInteger:
    case ArgumentKind::kDimension:
      return std::holds_alternative<int64_t>(argument);
    case ArgumentKind::kFloat:
      return std::holds_alternative<double>(argument);
    case ArgumentKind::kBool:
      return std::holds_alternative<bool>(argument);
    case ArgumentKind::kString:
      return std::holds_alternative<std::string>(argument);
  }
  return false;
}

const Tensor* tensor_of(const Argument& argument) {
  if (const Tensor* tensor = std::get_if<Tensor>(&argument)) return tensor;
  if (const Parameter* parameter = std::get_if<Parameter>(&argument)) return &parameter->tensor;
  return nullptr;
}

}  // namespace reprise::compile
