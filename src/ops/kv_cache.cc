#include "ops/kv_cache.h"

#include "ops/checks.h"
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
  require_cache(call, 3, shape);
  require_cache(call, 4, shape);
  require_shape(call, 4, call.inputs[3].shape());
}

void reference_store_kv(const OpCall& call) {
  reference_store_of(call.inputs[0], call.inputs[2], call.inputs[3]);
  reference_store_of(call.inputs[1], call.inputs[2], call.inputs[4]);
}

}  // namespace

void require_cache(const OpCall& call, size_t cache, const Shape& rows) {
  require_same_dtype(call, cache, 0);
  require_rank(call, cache, 4);
  const Shape& shape = call.inputs[cache].shape();
  require_shape(call, cache, Shape{shape[0], shape[1], rows[1], rows[2]});
  require_contiguous(call, cache);
}

void reference_store_of(const Tensor& rows, const Tensor& slots, const Tensor& cache) {
  const RowReader from(rows);
  RowWriter to(cache);
  const int64_t heads = rows.size(1);
  const int64_t slot_count = cache.size(0) * cache.size(1);
  for (int64_t row = 0; row < from.rows(); ++row) {
    const int64_t slot = slots.data_as<int32_t>()[row / heads];
    if (slot < 0 || slot >= slot_count) continue;
    for (int64_t i = 0; i < from.columns(); ++i) to.set(slot * heads + row % heads, i, from(row, i));
  }
}

void store_kv(ForwardContext& context, const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
              std::source_location where) {
  const Tensor inputs[] = {k, v, context.slots, k_cache, v_cache};
  context.dispatcher.dispatch("store_kv", inputs, {}, {}, {}, where);
}

void register_kv_cache(Registry& registry) {
  registry.add(OpDef("store_kv(Tensor k, Tensor v, Tensor slots, Tensor! k_cache, Tensor! v_cache) -> ()",
                     {.rounding = Rounding::kNone}, infer_store_kv, reference_store_kv));
}

}  // namespace reprise::ops
