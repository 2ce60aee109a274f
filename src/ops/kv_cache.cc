#include "ops/kv_cache.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/quantize.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_store_kv(const OpCall& call, std::span<TensorMeta> /*outputs*/) {
  const Shape& shape = call.inputs[0].shape();
  require_float(call, 0);
  require_rank(call, 0, 3);
  require_dense_rows(call, 0);
  require_same_dtype(call, 1, 0);
  require_shape(call, 1, shape);
  require_dense_rows(call, 1);
  require_dtype(call, 2, DType::kI32);
  require_shape(call, 2, Shape{shape[0]});
  require_contiguous(call, 2);
  require_caches(call, 3, shape);
}

void reference_store_kv(const OpCall& call) {
  reference_store_of(call.inputs[0], call.inputs[2], call.inputs[3], call.inputs[5]);
  reference_store_of(call.inputs[1], call.inputs[2], call.inputs[4], call.inputs[6]);
}

}  // namespace

void require_caches(const OpCall& call, size_t first, const Shape& rows) {
  const bool quantized = call.inputs[first + 2].defined();
  for (size_t cache = first; cache < first + 2; ++cache) {
    require_cache_dtype(call, cache, quantized);
    require_rank(call, cache, 4);
    const Shape& shape = call.inputs[cache].shape();
    require_shape(call, cache, Shape{shape[0], shape[1], rows[1], rows[2]});
    require_contiguous(call, cache);
  }
  const Shape& shape = call.inputs[first].shape();
  require_shape(call, first + 1, shape);
  require_kv_scales(call, first + 2, shape);
}

void require_kv_scales(const OpCall& call, size_t first, const Shape& cache) {
  const bool quantized = call.inputs[first].defined();
  if (call.inputs[first + 1].defined() != quantized) {
    fail_argument(call, quantized ? first + 1 : first, "is absent, expected both scales or none");
  }
  for (size_t scales = first; quantized && scales < first + 2; ++scales) {
    require_dtype(call, scales, DType::kF32);
    require_shape(call, scales, Shape{cache[0], cache[1], cache[2]});
    require_contiguous(call, scales);
  }
}

void require_cache_dtype(const OpCall& call, size_t cache, bool quantized) {
  if (quantized) {
    require_dtype(call, cache, DType::kI8);
  } else {
    require_same_dtype(call, cache, 0);
  }
}

void reference_store_of(const Tensor& rows, const Tensor& slots, const Tensor& cache, const Tensor& scales) {
  const int64_t heads = rows.size(1);
  const int64_t columns = rows.size(2);
  const int64_t slot_count = cache.size(0) * cache.size(1);
  const auto slot_of = [&](int64_t row) {
    const int64_t slot = slots.data_as<int32_t>()[row / heads];
    return slot < 0 || slot >= slot_count ? int64_t{-1} : slot * heads + row % heads;
  };
  if (scales.defined()) {
    const ScratchTensor values(TensorMeta(DType::kI8, rows.shape()));
    const ScratchTensor row_scales(TensorMeta(DType::kF32, {rows.shape()[0], rows.shape()[1]}));
    reference_dynamic_quantize_of(rows, {}, values.tensor(), row_scales.tensor());
    for (int64_t row = 0; row < rows.size(0) * heads; ++row) {
      const int64_t to = slot_of(row);
      if (to < 0) continue;
      std::copy_n(values.tensor().data_as<int8_t>() + row * columns, columns, cache.data_as<int8_t>() + to * columns);
      scales.data_as<float>()[to] = row_scales.tensor().data_as<float>()[row];
    }
    return;
  }
  const RowReader from(rows);
  RowWriter to(cache);
  for (int64_t row = 0; row < from.rows(); ++row) {
    const int64_t slot = slot_of(row);
    if (slot < 0) continue;
    for (int64_t i = 0; i < columns; ++i) to.set(slot, i, from(row, i));
  }
}

void store_kv(ForwardContext& context, const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
              const KvScales& scales, std::source_location where) {
  const Tensor inputs[] = {k, v, context.slots, k_cache, v_cache, scales.k, scales.v};
  context.dispatcher.dispatch("store_kv", inputs, {}, {}, {}, where);
}

void register_kv_cache(Registry& registry) {
  registry.add(
      OpDef("store_kv(Tensor k, Tensor v, Tensor slots, Tensor! k_cache, Tensor! v_cache, Tensor?! k_scales, "
            "Tensor?! v_scales) -> ()",
            {}, infer_store_kv, reference_store_kv));
}

}  // namespace reprise::ops
