#include "tensor/dtype.h"

#include <array>

namespace reprise {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<Entry, 8> kEntries = {{{DType::kF32, "float32", 4},
                                            {DType::kBF16, "bfloat16", 2},
                                            {DType::kF16, "float16", 2},
                                            {DType::kI8, "int8", 1},
                                            {DType::kU8, "uint8", 1},
                                            {DType::kI32, "int32", 4},
                                            {DType::kI64, "int64", 8},
                                            {DType::kBool, "bool", 1}}};

}  // namespace

size_t size_of(DType dtype) { return kEntries[static_cast<size_t>(dtype)].size; }

std::string_view name_of(DType dtype) { return kEntries[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace reprise
