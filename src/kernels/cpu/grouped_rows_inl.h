// Rows that are grouped by expert. Included by what is compiled once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Where an expert's rows end, or begin: never outside of the rows, whatever the offsets say.
REPRISE_INLINE int64_t group_bound(const GroupedRows& rows, int64_t expert) {
  return smaller(larger(rows.offsets[expert], 0), rows.count);
}

/// The next expert that has rows, or -1.
REPRISE_INLINE int64_t next_group(const GroupedRows& rows, int64_t expert) {
  while (++expert < rows.experts) {
    if (group_bound(rows, expert) < group_bound(rows, expert + 1)) return expert;
  }
  return -1;
}

/// Calls product(expert, first_row, last_row) for each expert that has rows, then makes the rows behind theirs 0 in the
/// blocks [first_block, last_block) of `outputs` columns.
template <typename Product>
REPRISE_INLINE void for_each_group(const GroupedRows& rows, int64_t outputs, int64_t first_block, int64_t last_block,
                                   Product product) {
  for (int64_t expert = 0; expert < rows.experts; ++expert) {
    const int64_t begin = group_bound(rows, expert);
    const int64_t end = group_bound(rows, expert + 1);
    if (begin < end) product(expert, begin, end);
  }
  const int64_t begin = first_block * kLinearBlock;
  const int64_t end = smaller(last_block * kLinearBlock, outputs);
  const int64_t bytes = static_cast<int64_t>(rows.y_element == Element::kF32 ? sizeof(float) : sizeof(Bf16));
  for (int64_t row = group_bound(rows, rows.experts); row < rows.count && begin < end; ++row) {
    memset(static_cast<char*>(rows.y) + (row * outputs + begin) * bytes, 0, static_cast<size_t>((end - begin) * bytes));
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
