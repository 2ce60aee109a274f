// Products of rows grouped by expert. Included by linear_inl.h, whose products it makes.

#include "kernels/cpu/grouped_rows_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

/// The product of all rows, but for the weight.
REPRISE_INLINE LinearArguments product_of(const GroupedLinearArguments& a) {
  LinearArguments one = {};
  one.x = a.x;
  one.y = a.rows.y;
  one.rows = a.rows.count;
  one.inputs = a.inputs;
  one.outputs = a.outputs;
  one.x_row_stride = a.x_row_stride;
  one.y_row_stride = a.outputs;
  one.y_element = a.rows.y_element;
  one.tiles = a.tiles;
  return one;
}

/// Tile t: block t of the outputs, for all experts. So every thread has the same work however the rows are spread.
template <typename X, typename W>
void grouped_linear(const void* arguments, int64_t first, int64_t last) {
  const GroupedLinearArguments& a = *static_cast<const GroupedLinearArguments*>(arguments);
  const int64_t expert_elements = linear_blocks(a.outputs) * packed_block_elements(kElementOf<W>, a.inputs);
  LinearArguments one = product_of(a);
  const auto weight_of = [&](int64_t expert) { return static_cast<const W*>(a.weight) + expert * expert_elements; };
  for_each_group(a.rows, a.outputs, first, last, [&](int64_t expert, int64_t begin, int64_t end) {
    one.weight = weight_of(expert);
    const int64_t next = next_group(a.rows, expert);
    linear_rectangle<X, W>(
        one, begin, end, first, last,
        next < 0 ? nullptr : weight_of(next) + first * packed_block_elements(kElementOf<W>, a.inputs));
  });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
