// A layer of experts in two launches. Included by linear_inl.h, whose products it makes.

#include "kernels/cpu/combine_row_inl.h"
#include "kernels/cpu/silu_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Columns [begin, end) of rows [first, last).
template <typename X>
REPRISE_INLINE void swiglu_rows(const ExpertsUpArguments& a, int64_t first, int64_t last, int64_t begin, int64_t end) {
  for (int64_t row = first; row < last; ++row) {
    const X* gate = static_cast<const X*>(a.product.rows.y) + row * 2 * a.columns;
    const X* up = gate + a.columns;
    X* hidden = static_cast<X*>(a.hidden) + row * a.columns;
    for (int64_t i = begin; i < end; i += 16) {
      const V value = silu_mul_of<X>(load_up_to(gate + i, end - i), load_up_to(up + i, end - i));
      store_up_to(hidden + i, value, end - i);
    }
  }
}

template <typename X, typename W>
void experts_up(const void* arguments, int64_t first, int64_t last) {
  const ExpertsUpArguments& a = *static_cast<const ExpertsUpArguments*>(arguments);
  const GroupedLinearArguments& product = a.product;
  if (first >= last) return;
  const bool whole = a.columns % kLinearBlock != 0;
  const int64_t up = a.columns / kLinearBlock;
  const int64_t begin = whole ? 0 : first * kLinearBlock;
  const int64_t end = whole ? a.columns : last * kLinearBlock;
  LinearArguments one = product_of(product);
  const int64_t expert_elements = linear_blocks(product.outputs) * packed_block_elements(kElementOf<W>, product.inputs);
  const auto block_of = [&](int64_t expert, int64_t block) {
    return static_cast<const W*>(product.weight) + expert * expert_elements +
           block * packed_block_elements(kElementOf<W>, product.inputs);
  };
  for (int64_t expert = 0; expert < product.rows.experts; ++expert) {
    const int64_t row = group_bound(product.rows, expert);
    const int64_t last_row = group_bound(product.rows, expert + 1);
    if (row >= last_row) continue;
    one.weight = block_of(expert, 0);
    if (whole) {
      linear_rectangle<X, W>(one, row, last_row, 0, linear_blocks(product.outputs));
    } else {
      const int64_t next = next_group(product.rows, expert);
      linear_rectangle<X, W>(one, row, last_row, first, last, block_of(expert, up + first));
      linear_rectangle<X, W>(one, row, last_row, up + first, up + last, next < 0 ? nullptr : block_of(next, first));
    }
    swiglu_rows<X>(a, row, last_row, begin, end);
  }
}

template <typename X, typename W>
void experts_down(const void* arguments, int64_t first, int64_t last) {
  const ExpertsDownArguments& a = *static_cast<const ExpertsDownArguments*>(arguments);
  if (first >= last) return;
  grouped_linear<X, W>(&a.product, first, last);
  const int64_t end = smaller(last * kLinearBlock, a.sum.columns);
  for (int64_t token = 0; token < a.sum.tokens; ++token) {
    for (int64_t begin = first * kLinearBlock; begin < end; begin += kCombineColumns) {
      combine_piece<X>(a.sum, token, begin, smaller(kCombineColumns, end - begin));
    }
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
