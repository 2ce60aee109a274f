// Copies of rows with other elements. Included by what is compiled once for each instruction set.

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename X, typename Y>
REPRISE_INLINE void convert_row(const X* x, Y* y, int64_t columns) {
  for (int64_t i = 0; i < columns; i += 16) store_up_to(y + i, load_up_to(x + i, columns - i), columns - i);
}
/// Equal types keep every bit, also of a NaN.
template <typename T>
REPRISE_INLINE void convert_row(const T* x, T* y, int64_t columns) {
  if (columns > 0) memcpy(y, x, static_cast<size_t>(columns) * sizeof(T));
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
