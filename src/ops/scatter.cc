#include "ops/scatter.h"

#include <cstring>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/in_place.h"

namespace reprise::ops {
namespace {

void infer_scatter_rows(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& updates = call.inputs[2];
  require_contiguous(call, 0);
  require_dtype(call, 1, DType::kI32);
  require_rank(call, 1, 1);
  require_contiguous(call, 1);
  require_same_dtype(call, 2, 0);
  require_contiguous(call, 2);
  if (x.rank() == 0) fail_argument(call, 0, "has no axis");
  Shape expected = x.shape();
  expected[0] = call.inputs[1].shape()[0];
  require_shape(call, 2, expected);
  outputs[0] = TensorMeta(updates.dtype(), x.shape());
}

void reference_scatter_rows(const OpCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  const size_t bytes = x.meta().contiguous_bytes();
  if (y.data() != x.data()) std::memcpy(y.data(), x.data(), bytes);
  const size_t row_bytes = static_cast<size_t>(x.stride(0)) * size_of(x.dtype());
  for (int64_t i = 0; i < call.inputs[1].size(0); ++i) {
    const int32_t row = call.inputs[1].data_as<int32_t>()[i];
    if (row < 0 || row >= x.size(0)) continue;
    std::memcpy(y.data_as<std::byte>() + static_cast<size_t>(row) * row_bytes,
                call.inputs[2].data_as<std::byte>() + static_cast<size_t>(i) * row_bytes, row_bytes);
  }
}

}  // namespace

Tensor scatter_rows(ForwardContext& context, const Tensor& x, const Tensor& rows, const Tensor& updates,
                    std::source_location where) {
  return dispatch_call(context, "scatter_rows", {x, rows, updates}, {}, {}, where);
}

void scatter_rows_(ForwardContext& context, const Tensor& x, const Tensor& rows, const Tensor& updates,
                   std::source_location where) {
  dispatch_call_of<0>(context, "scatter_rows_", {x, rows, updates}, {}, where);
}

void register_scatter(Registry& registry) {
  const Traits traits{.rowwise = false, .rounding = Rounding::kNone};
  registry.add(OpDef("scatter_rows(Tensor x, Tensor rows, Tensor updates) -> Tensor y", traits, infer_scatter_rows,
                     reference_scatter_rows));
  registry.add(OpDef("scatter_rows_(Tensor! x, Tensor rows, Tensor updates) -> ()", traits,
                     infer_in_place<infer_scatter_rows>, in_place<reference_scatter_rows>));
}

}  // namespace reprise::ops
