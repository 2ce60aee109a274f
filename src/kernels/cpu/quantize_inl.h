// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/quantize_row_inl.h"
#include "kernels/cpu/silu_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T>
struct SwigluRow {
  const T* gate;
  const T* up;
  REPRISE_INLINE V at(int64_t i, int64_t left) const {
    const V value = silu_mul_of<T>(load_up_to(gate + i, left), load_up_to(up + i, left));
    return rounded_as(value, static_cast<const T*>(nullptr));
  }
};

template <typename T, typename Arguments>
REPRISE_INLINE PlainRow<T> plain_row(const Arguments& a, int64_t row) {
  return {static_cast<const T*>(a.a) + row * a.a_row_stride};
}
template <typename T, typename Arguments>
REPRISE_INLINE SwigluRow<T> swiglu_row(const Arguments& a, int64_t row) {
  return {static_cast<const T*>(a.a) + row * a.a_row_stride, static_cast<const T*>(a.b) + row * a.b_row_stride};
}

template <typename T, bool kSwiglu>
void quantize(const void* arguments, int64_t first, int64_t last) {
  const QuantizeArguments& a = *static_cast<const QuantizeArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    int8_t* y = a.y + row * a.columns;
    if constexpr (kSwiglu) {
      quantize_row(swiglu_row<T>(a, row), a.columns, a.scales, y);
    } else {
      quantize_row(plain_row<T>(a, row), a.columns, a.scales, y);
    }
  }
}

/// Rows up to this length are computed once and kept; longer ones are computed for the scale and again for the values.
constexpr int64_t kKeptColumns = 16384;

template <typename Row>
REPRISE_INLINE float dynamic_quantize_computed_row(const Row& row, int64_t columns, const float* smooth_scales,
                                                   int8_t* y) {
  if (columns > kKeptColumns) return dynamic_quantize_row(row, columns, smooth_scales, y);
  alignas(64) float kept[kKeptColumns];
  for (int64_t i = 0; i < columns; i += 16) store_up_to(kept + i, row.at(i, columns - i), columns - i);
  return dynamic_quantize_row(PlainRow<float>{kept}, columns, smooth_scales, y);
}

template <typename T, bool kSwiglu>
void dynamic_quantize(const void* arguments, int64_t first, int64_t last) {
  const DynamicQuantizeArguments& a = *static_cast<const DynamicQuantizeArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    int8_t* y = a.y + row * a.columns;
    if constexpr (kSwiglu) {
      a.scales[row] = dynamic_quantize_computed_row(swiglu_row<T>(a, row), a.columns, a.smooth_scales, y);
    } else {
      a.scales[row] = dynamic_quantize_row(plain_row<T>(a, row), a.columns, a.smooth_scales, y);
    }
  }
}

template <typename T>
void scatter_quantized(const void* arguments, int64_t first, int64_t last) {
  const ScatterQuantizedArguments& a = *static_cast<const ScatterQuantizedArguments*>(arguments);
  for (int64_t token = first; token < last; ++token) {
    const int32_t* places = a.places + token * a.top_k;
    const int8_t* quantized = nullptr;
    float scale = 0;
    for (int64_t j = 0; j < a.top_k; ++j) {
      if (places[j] < 0) continue;
      int8_t* y = a.y + places[j] * a.columns;
      if (quantized == nullptr) {
        scale = dynamic_quantize_row(PlainRow<T>{static_cast<const T*>(a.x) + token * a.x_row_stride}, a.columns,
                                     nullptr, y);
        quantized = y;
      } else {
        memcpy(y, quantized, static_cast<size_t>(a.columns));
      }
      a.scales[places[j]] = scale;
    }
  }
}

constexpr QuantizeKernels kQuantizeKernels = {{quantize<float, false>, quantize<Bf16, false>},
                                              {quantize<float, true>, quantize<Bf16, true>},
                                              {dynamic_quantize<float, false>, dynamic_quantize<Bf16, false>},
                                              {dynamic_quantize<float, true>, dynamic_quantize<Bf16, true>},
                                              {scatter_quantized<float>, scatter_quantized<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
