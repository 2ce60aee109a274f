#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::ops {

/// A constant argument of an operator: frozen into a graph, part of its text and hash.
using Attribute = std::variant<int64_t, double, bool, DType, Shape, std::string>;

/// As in a schema: Attribute's alternatives in their order.
enum class AttributeKind { kInt, kFloat, kBool, kDType, kShape, kString };

/// Graph text of a value: 4, 1e-06 (always with a point or an exponent, and exact), true, bfloat16, [s0, 64], "text".
std::string to_string(const Attribute& attribute);

}  // namespace reprise::ops
