// Compiled once for each instruction set, see foreach_instruction_set.h.

#include "kernels/cpu/convert_row_inl.h"
#include "kernels/cpu/quantize_row_inl.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename X, typename Y>
void cast(const void* arguments, int64_t first, int64_t last) {
  const CastArguments& a = *static_cast<const CastArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    convert_row(static_cast<const X*>(a.x) + row * a.x_row_stride, static_cast<Y*>(a.y) + row * a.y_row_stride,
                a.columns);
  }
}

template <typename X, typename Y>
void gather_rows(const void* arguments, int64_t first, int64_t last) {
  const GatherRowsArguments& a = *static_cast<const GatherRowsArguments*>(arguments);
  for (int64_t row = first; row < last; ++row) {
    Y* y = static_cast<Y*>(a.y) + row * a.y_row_stride;
    const int64_t id = a.ids[row];
    if (id < 0 || id >= a.table_rows) {
      memset(y, 0xFF, static_cast<size_t>(a.columns) * sizeof(Y));
    } else {
      convert_row(static_cast<const X*>(a.table) + id * a.table_row_stride, y, a.columns);
    }
  }
}

template <typename X, typename Y>
void store_kv(const void* arguments, int64_t first, int64_t last) {
  const StoreKvArguments& a = *static_cast<const StoreKvArguments*>(arguments);
  for (int64_t token = first; token < last; ++token) {
    const int64_t slot = a.slots[token];
    if (slot < 0 || slot >= a.slot_count) continue;
    convert_row(static_cast<const X*>(a.key) + token * a.key_row_stride,
                static_cast<Y*>(a.key_cache) + slot * a.columns, a.columns);
    convert_row(static_cast<const X*>(a.value) + token * a.value_row_stride,
                static_cast<Y*>(a.value_cache) + slot * a.columns, a.columns);
  }
}

/// The heads of one token's keys or values.
template <typename X>
REPRISE_INLINE void store_quantized(const StoreKvArguments& a, const X* from, int64_t slot, int8_t* cache,
                                    float* scales) {
  const int64_t heads = a.columns / a.head_dim;
  for (int64_t head = 0; head < heads; ++head) {
    scales[slot * heads + head] = dynamic_quantize_row(PlainRow<X>{from + head * a.head_dim}, a.head_dim, nullptr,
                                                       cache + slot * a.columns + head * a.head_dim);
  }
}

template <typename X>
void store_kv_int8(const void* arguments, int64_t first, int64_t last) {
  const StoreKvArguments& a = *static_cast<const StoreKvArguments*>(arguments);
  for (int64_t token = first; token < last; ++token) {
    const int64_t slot = a.slots[token];
    if (slot < 0 || slot >= a.slot_count) continue;
    store_quantized(a, static_cast<const X*>(a.key) + token * a.key_row_stride, slot, static_cast<int8_t*>(a.key_cache),
                    a.key_scales);
    store_quantized(a, static_cast<const X*>(a.value) + token * a.value_row_stride, slot,
                    static_cast<int8_t*>(a.value_cache), a.value_scales);
  }
}

constexpr RowKernels kRowKernels = {
    {{cast<float, float>, cast<float, Bf16>},
     {cast<Bf16, float>, cast<Bf16, Bf16>},
     {cast<F16, float>, cast<F16, Bf16>}},
    {{gather_rows<float, float>, gather_rows<float, Bf16>}, {gather_rows<Bf16, float>, gather_rows<Bf16, Bf16>}},
    {{store_kv<float, float>, store_kv<float, Bf16>}, {store_kv<Bf16, float>, store_kv<Bf16, Bf16>}},
    {store_kv_int8<float>, store_kv_int8<Bf16>}};

}  // namespace reprise::kernels::cpu::REPRISE_ISA
