// Compiled once for each instruction set, see foreach_instruction_set.h.

#ifndef REPRISE_KERNELS_CPU_BATCH_MATMUL_BLOCKS
#define REPRISE_KERNELS_CPU_BATCH_MATMUL_BLOCKS
namespace reprise::kernels::cpu {
/// Rows of one tile: as many as pass over a strip of columns while it is in the cache.
inline constexpr int64_t kBatchMatmulRows = 32;
/// Columns of one tile: two vectors.
inline constexpr int64_t kBatchMatmulColumns = 32;
}  // namespace reprise::kernels::cpu
#endif

namespace reprise::kernels::cpu::REPRISE_ISA {

/// Rows whose sums fit into the registers beside two vectors of b.
constexpr int kBatchMatmulRegisterRows = kRegisterBudget >= 8 ? 4 : kRegisterBudget >= 6 ? 3 : 1;

/// kRows rows times up to 32 columns.
template <int kRows, typename T>
REPRISE_INLINE void batch_matmul_register_tile(const T* a, int64_t a_row_stride, const T* b, int64_t b_row_stride,
                                               int64_t inner, T* y, int64_t y_row_stride, int64_t columns) {
  V low[kRows];
  V high[kRows];
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = zero();
  for (int64_t k = 0; k < inner; ++k) {
    const V b_low = load_up_to(b + k * b_row_stride, columns);
    const V b_high = columns > 16 ? load_up_to(b + k * b_row_stride + 16, columns - 16) : zero();
    for (int r = 0; r < kRows; ++r) {
      const V value = set(to_float(a[r * a_row_stride + k]));
      low[r] = fma(value, b_low, low[r]);
      high[r] = fma(value, b_high, high[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store_up_to(y + r * y_row_stride, low[r], columns);
    if (columns > 16) store_up_to(y + r * y_row_stride + 16, high[r], columns - 16);
  }
}

template <typename T>
void batch_matmul(const void* arguments, int64_t first, int64_t last) {
  const BatchMatmulArguments& a = *static_cast<const BatchMatmulArguments*>(arguments);
  const int64_t row_blocks = (a.rows + kBatchMatmulRows - 1) / kBatchMatmulRows;
  const int64_t column_blocks = (a.columns + kBatchMatmulColumns - 1) / kBatchMatmulColumns;
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t batch = tile / (row_blocks * column_blocks);
    const int64_t column = tile / row_blocks % column_blocks * kBatchMatmulColumns;
    int64_t row = tile % row_blocks * kBatchMatmulRows;
    const int64_t end = smaller(row + kBatchMatmulRows, a.rows);
    const T* x = static_cast<const T*>(a.a) + batch * a.a_batch_stride;
    const T* b = static_cast<const T*>(a.b) + batch * a.b_batch_stride + column;
    T* y = static_cast<T*>(a.y) + batch * a.y_batch_stride + column;
    const int64_t columns = a.columns - column;
    while (row < end) {
      if (kBatchMatmulRegisterRows > 1 && row + kBatchMatmulRegisterRows <= end) {
        batch_matmul_register_tile<kBatchMatmulRegisterRows>(x + row * a.a_row_stride, a.a_row_stride, b,
                                                             a.b_row_stride, a.inner, y + row * a.y_row_stride,
                                                             a.y_row_stride, columns);
        row += kBatchMatmulRegisterRows;
      } else {
        batch_matmul_register_tile<1>(x + row * a.a_row_stride, a.a_row_stride, b, a.b_row_stride, a.inner,
                                      y + row * a.y_row_stride, a.y_row_stride, columns);
        ++row;
      }
    }
  }
}

constexpr BatchMatmulKernels kBatchMatmulKernels = {{batch_matmul<float>, batch_matmul<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
