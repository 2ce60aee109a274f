#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::kernels::cpu {

/// Does the tiles [first, last) of a launch. `arguments` is the family's argument struct, followed, where the family
/// says so, by a tail of int32 at the next multiple of 8 bytes. Tiles are independent of each other and their results
/// do not depend on how they are dealt; long contiguous ranges run faster than single tiles.
using KernelFunction = void (*)(const void* arguments, int64_t first, int64_t last);

/// Element types that kernels are made for; also the index into their tables. As wide as what lies beside it in
/// argument structs, which must not have gaps: captured arguments are compared and hashed as bytes, and not every
/// compiler can clear gaps.
enum class Element : int64_t { kF32 = 0, kBf16 = 1, kF16 = 2, kI8 = 3 };

/// Storage of a bfloat16 (the upper half of a float32).
struct Bf16 {
  uint16_t bits;
};

/// Storage of an IEEE half.
struct F16 {
  uint16_t bits;
};

/// Bytes of one element.
constexpr size_t size_of(Element element) { return element == Element::kF32 ? 4 : element == Element::kI8 ? 1 : 2; }

/// Where a kernel finds the tail of its arguments.
template <typename Arguments>
const int32_t* tail_of(const void* arguments) {
  constexpr size_t kOffset = (sizeof(Arguments) + 7) / 8 * 8;
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(arguments) + kOffset);
}

}  // namespace reprise::kernels::cpu
