#include "ops/embedding.h"

#include <limits>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_embedding(const OpCall& call, std::span<TensorMeta> outputs) {
  require_lookup(call, 0, 1);
  const DType dtype = float_dtype_attribute(call, 0);
  outputs[0] = TensorMeta(dtype, Shape{call.inputs[0].shape()[0], call.inputs[1].shape()[1]});
}

void reference_embedding(const OpCall& call) { reference_lookup_of(call.inputs[0], call.inputs[1], call.outputs[0]); }

void infer_gather_rows(const OpCall& call, std::span<TensorMeta> outputs) {
  require_lookup(call, 1, 0);
  outputs[0] = TensorMeta(call.inputs[0].dtype(), Shape{call.inputs[1].shape()[0], call.inputs[0].shape()[1]});
}

void reference_gather_rows(const OpCall& call) { reference_lookup_of(call.inputs[1], call.inputs[0], call.outputs[0]); }

}  // namespace

void require_lookup(const OpCall& call, size_t rows, size_t table) {
  require_dtype(call, rows, DType::kI32);
  require_rank(call, rows, 1);
  require_contiguous(call, rows);
  require_float(call, table);
  require_rank(call, table, 2);
  require_dense_rows(call, table);
}

void reference_lookup_of(const Tensor& rows, const Tensor& table, const Tensor& result) {
  const RowReader from(table);
  RowWriter to(result);
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const int32_t index = rows.data_as<int32_t>()[row];
    const bool inside = index >= 0 && index < table.size(0);
    for (int64_t i = 0; i < table.size(1); ++i)
      to.set(row, i, inside ? from(index, i) : std::numeric_limits<float>::quiet_NaN());
  }
}

Tensor embedding(ForwardContext& context, const Tensor& ids, const Tensor& table, DType dtype,
                 std::source_location where) {
  return dispatch_call(context, "embedding", {ids, table}, {}, {dtype}, where);
}

Tensor gather_rows(ForwardContext& context, const Tensor& x, const Tensor& rows, std::source_location where) {
  return dispatch_call(context, "gather_rows", {x, rows}, {}, {}, where);
}

void register_embedding(Registry& registry) {
  registry.add(OpDef("embedding(Tensor ids, Tensor table, *, dtype dtype) -> Tensor y", {}, infer_embedding,
                     reference_embedding));
  registry.add(OpDef("gather_rows(Tensor x, Tensor rows) -> Tensor y", {.rowwise = false, .rounding = Rounding::kNone},
                     infer_gather_rows, reference_gather_rows));
}

}  // namespace reprise::ops
