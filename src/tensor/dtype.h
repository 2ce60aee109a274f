#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// Element types of tensors.
enum class DType : uint8_t { kF32, kBF16, kF16, kI8, kU8, kI32, kI64, kBool };

/// Bytes of one element.
size_t size_of(DType dtype);
/// The name used in graph text and messages: "float32", "bfloat16", "float16", "int8", "uint8", "int32", "int64",
/// "bool".
std::string_view name_of(DType dtype);
/// The inverse of name_of; nothing for other strings.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace reprise
