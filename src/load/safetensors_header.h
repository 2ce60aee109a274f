#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::load {

/// A safetensors file is: 8 bytes N (unsigned, little-endian), N bytes of JSON, the data of the tensors. Headers larger
/// than this are refused; the largest known in the wild have about 126 MB.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

/// The dtype names of safetensors: "F32", "BF16", "F16", "I8", "U8", "I32", "I64", "BOOL".
std::string_view safetensors_name(DType dtype);

/// One tensor as a header declares it. `begin` and `end` count from the first byte of the file and lie inside of it.
struct HeaderEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  size_t begin = 0;
  size_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  ///< where the data section starts in the file
};

/// Checks and reads the header of a whole file in memory. After it returns, every entry lies inside `file`, has exactly
/// the bytes of its shape, and the entries cover the data section once, without overlap or hole, to the file's last
/// byte: trailing bytes are refused, as the format's reference implementation does. Names may come in any order.
/// Nothing is allocated before the header's length has been checked against the file's. Throws kCorruptData, or
/// kUnsupported for dtypes and ranks that Reprise does not know; messages begin with `what`, the file's name.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& what);

}  // namespace reprise::load
