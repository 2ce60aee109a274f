// Compiled once for each instruction set, see foreach_instruction_set.h.

#ifndef REPRISE_KERNELS_CPU_ELEMENTWISE_COLUMNS
#define REPRISE_KERNELS_CPU_ELEMENTWISE_COLUMNS
namespace reprise::kernels::cpu {
/// Columns of one tile: about a quarter of a microsecond.
inline constexpr int64_t kElementwiseColumns = 1024;
}  // namespace reprise::kernels::cpu
#endif

#include "kernels/cpu/silu_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

struct Add {
  static constexpr bool kBinary = true;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V b) {
    return a + b;
  }
};
struct Mul {
  static constexpr bool kBinary = true;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V b) {
    return a * b;
  }
};
struct Silu {
  static constexpr bool kBinary = false;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V) {
    return silu_of(a);
  }
};
struct SiluMul {
  static constexpr bool kBinary = true;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V b) {
    return silu_mul_of<T>(a, b);
  }
};
struct Divide {
  static constexpr bool kBinary = true;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V b) {
    return a / b;
  }
};
struct Reciprocal {
  static constexpr bool kBinary = false;
  template <typename T>
  static REPRISE_INLINE V apply(V a, V) {
    return set(1.0f) / a;
  }
};

template <typename T, typename Function>
void elementwise(const void* arguments, int64_t first, int64_t last) {
  const ElementwiseArguments& args = *static_cast<const ElementwiseArguments*>(arguments);
  const int64_t pieces = (args.columns + kElementwiseColumns - 1) / kElementwiseColumns;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t row = tile / pieces;
    const int64_t begin = tile % pieces * kElementwiseColumns;
    const int64_t end = smaller(begin + kElementwiseColumns, args.columns);
    const T* a = static_cast<const T*>(args.a) + row * args.a_row_stride;
    const T* b = Function::kBinary ? static_cast<const T*>(args.b) + row * args.b_row_stride : nullptr;
    T* y = static_cast<T*>(args.y) + row * args.y_row_stride;
    for (int64_t i = begin; i < end; i += 16) {
      const V left = load_up_to(a + i, end - i);
      V right = zero();
      if constexpr (Function::kBinary) right = load_up_to(b + i, end - i);
      store_up_to(y + i, Function::template apply<T>(left, right), end - i);
    }
  }
}

constexpr ElementwiseKernels kElementwiseKernels = {{elementwise<float, Add>, elementwise<Bf16, Add>},
                                                    {elementwise<float, Mul>, elementwise<Bf16, Mul>},
                                                    {elementwise<float, Silu>, elementwise<Bf16, Silu>},
                                                    {elementwise<float, SiluMul>, elementwise<Bf16, SiluMul>},
                                                    {elementwise<float, Divide>, elementwise<Bf16, Divide>},
                                                    {elementwise<float, Reciprocal>, elementwise<Bf16, Reciprocal>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
