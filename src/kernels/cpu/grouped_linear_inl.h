// Products of rows grouped by expert. Included by linear_inl.h, whose products it makes.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Where an expert's rows end, or begin: never outside of the rows, whatever the offsets say.
REPRISE_INLINE int64_t group_bound(const GroupedLinearArguments& a, int64_t expert) {
  return smaller(larger(a.offsets[expert], 0), a.rows);
}

/// Rows behind the last expert's.
REPRISE_INLINE void clear_rest(const GroupedLinearArguments& a, int64_t first_block, int64_t last_block) {
  const int64_t begin = first_block * kLinearBlock;
  const int64_t end = smaller(last_block * kLinearBlock, a.outputs);
  const int64_t bytes = static_cast<int64_t>(a.y_element == Element::kF32 ? sizeof(float) : sizeof(Bf16));
  if (begin >= end) return;
  for (int64_t row = group_bound(a, a.experts); row < a.rows; ++row) {
    memset(static_cast<char*>(a.y) + (row * a.outputs + begin) * bytes, 0, static_cast<size_t>((end - begin) * bytes));
  }
}

/// Tile t: block t of the outputs, for all experts. So every thread has the same work however the rows are spread.
template <typename X, typename W>
void grouped_linear(const void* arguments, int64_t first, int64_t last) {
  const GroupedLinearArguments& a = *static_cast<const GroupedLinearArguments*>(arguments);
  const int64_t expert_elements = linear_blocks(a.outputs) * packed_block_elements(kElementOf<W>, a.inputs);
  LinearArguments one = {};
  one.x = a.x;
  one.y = a.y;
  one.rows = a.rows;
  one.inputs = a.inputs;
  one.outputs = a.outputs;
  one.x_row_stride = a.x_row_stride;
  one.y_row_stride = a.outputs;
  one.y_element = a.y_element;
  for (int64_t expert = 0; expert < a.experts; ++expert) {
    const int64_t begin = group_bound(a, expert);
    const int64_t end = group_bound(a, expert + 1);
    if (begin >= end) continue;
    one.weight = static_cast<const W*>(a.weight) + expert * expert_elements;
    linear_rectangle<X, W>(one, begin, end, first, last);
  }
  clear_rest(a, first, last);
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
