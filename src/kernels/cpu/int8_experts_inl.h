// The end of a layer of experts with int8 weights. Included by int8_linear_inl.h, whose products it makes.

#include "kernels/cpu/combine_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Tile t: block t of the outputs, for all experts and tokens.
template <typename T>
void int8_experts_down(const void* arguments, int64_t first, int64_t last) {
  const Int8ExpertsDownArguments& a = *static_cast<const Int8ExpertsDownArguments*>(arguments);
  if (first >= last) return;
  int8_grouped_linear(&a.product, first, last);
  const int64_t end = smaller(last * kLinearBlock, a.sum.columns);
  for (int64_t token = 0; token < a.sum.tokens; ++token) {
    for (int64_t begin = first * kLinearBlock; begin < end; begin += kCombineColumns) {
      combine_piece<T>(a.sum, token, begin, smaller(kCombineColumns, end - begin));
    }
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
