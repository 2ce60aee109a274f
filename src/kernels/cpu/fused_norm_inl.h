// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/convert_row_inl.h"
#include "kernels/cpu/norm_row_inl.h"
#include "kernels/cpu/quantize_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
REPRISE_INLINE void add_row(const T* a, const T* b, T* sum, int64_t columns) {
  for (int64_t i = 0; i < columns; i += 16) {
    const int64_t left = columns - i;
    store_up_to(sum + i, load_up_to(a + i, left) + load_up_to(b + i, left), left);
  }
}

/// Normed values as they are read back after a store.
template <typename T>
struct RoundedNormedRow {
  NormedRow<T> normed;
  REPRISE_INLINE V at(int64_t i, int64_t left) const {
    return rounded_as(normed.at(i, left), static_cast<const T*>(nullptr));
  }
};

struct StorePlain {
  template <typename T, typename Arguments>
  static REPRISE_INLINE void row(const Arguments& a, int64_t row, const RoundedNormedRow<T>& values) {
    T* y = static_cast<T*>(a.y) + row * a.columns;
    for (int64_t i = 0; i < a.columns; i += 16) store_up_to(y + i, values.normed.at(i, a.columns - i), a.columns - i);
  }
};
struct StoreCast {
  template <typename T, typename Arguments>
  static REPRISE_INLINE void row(const Arguments& a, int64_t row, const RoundedNormedRow<T>& values) {
    StorePlain::row(a, row, values);
    convert_row(static_cast<const T*>(a.y) + row * a.columns, a.wide + row * a.columns, a.columns);
  }
};
struct StoreQuantized {
  template <typename T, typename Arguments>
  static REPRISE_INLINE void row(const Arguments& a, int64_t row, const RoundedNormedRow<T>& values) {
    quantize_row(values, a.columns, a.scales, a.quantized + row * a.columns);
  }
};
struct StoreDynamicQuantized {
  template <typename T, typename Arguments>
  static REPRISE_INLINE void row(const Arguments& a, int64_t row, const RoundedNormedRow<T>& values) {
    a.row_scales[row] = dynamic_quantize_row(values, a.columns, a.smooth_scales, a.quantized + row * a.columns);
  }
};

template <typename T, typename Store>
void add_rms_norm(const void* arguments, int64_t first, int64_t last) {
  const AddRmsNormArguments& a = *static_cast<const AddRmsNormArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    T* sum = static_cast<T*>(a.sum) + row * a.columns;
    add_row(static_cast<const T*>(a.x) + row * a.x_row_stride,
            static_cast<const T*>(a.residual) + row * a.residual_row_stride, sum, a.columns);
    // Read back from the cache that it was just written to: that is where the sum has its rounded value.
    Store::template row<T>(a, row, {NormedRow<T>(sum, a.columns, a.weight, a.bias, a.epsilon)});
  }
}

template <typename X, typename Y, typename Store>
void embedding_rms_norm(const void* arguments, int64_t first, int64_t last) {
  const EmbeddingRmsNormArguments& a = *static_cast<const EmbeddingRmsNormArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    Y* hidden = static_cast<Y*>(a.hidden) + row * a.columns;
    const int64_t id = a.ids[row];
    if (id < 0 || id >= a.table_rows) {
      memset(hidden, 0xFF, static_cast<size_t>(a.columns) * sizeof(Y));
    } else {
      convert_row(static_cast<const X*>(a.table) + id * a.table_row_stride, hidden, a.columns);
    }
    Store::template row<Y>(a, row, {NormedRow<Y>(hidden, a.columns, a.weight, a.bias, a.epsilon)});
  }
}

constexpr FusedNormKernels kFusedNormKernels = {
    {add_rms_norm<float, StorePlain>, add_rms_norm<Bf16, StorePlain>},
    {add_rms_norm<float, StoreCast>, add_rms_norm<Bf16, StoreCast>},
    {add_rms_norm<float, StoreQuantized>, add_rms_norm<Bf16, StoreQuantized>},
    {add_rms_norm<float, StoreDynamicQuantized>, add_rms_norm<Bf16, StoreDynamicQuantized>},
    {{embedding_rms_norm<float, float, StorePlain>, embedding_rms_norm<float, Bf16, StorePlain>},
     {embedding_rms_norm<Bf16, float, StorePlain>, embedding_rms_norm<Bf16, Bf16, StorePlain>}},
    {{embedding_rms_norm<float, float, StoreQuantized>, embedding_rms_norm<float, Bf16, StoreQuantized>},
     {embedding_rms_norm<Bf16, float, StoreQuantized>, embedding_rms_norm<Bf16, Bf16, StoreQuantized>}},
    {{embedding_rms_norm<float, float, StoreDynamicQuantized>, embedding_rms_norm<float, Bf16, StoreDynamicQuantized>},
     {embedding_rms_norm<Bf16, float, StoreDynamicQuantized>, embedding_rms_norm<Bf16, Bf16, StoreDynamicQuantized>}}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
