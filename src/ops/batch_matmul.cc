#include "ops/batch_matmul.h"

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

/// `batch_axis`: of a, where its other outer axis is M.
void check_arguments(const OpCall& call, size_t batch_axis) {
  require_float(call, 0);
  require_rank(call, 0, 3);
  require_dense_rows(call, 0);
  require_same_dtype(call, 1, 0);
  require_rank(call, 1, 3);
  require_dense_rows(call, 1);
  const Shape& a = call.inputs[0].shape();
  require_shape(call, 1, Shape{a[batch_axis], a[2], call.inputs[1].shape()[2]});
}

void infer_batch_matmul(const OpCall& call, std::span<TensorMeta> outputs) {
  check_arguments(call, 0);
  const Shape& a = call.inputs[0].shape();
  outputs[0] = TensorMeta(call.inputs[0].dtype(), Shape{a[0], a[1], call.inputs[1].shape()[2]});
}

void infer_transpose_batch_matmul(const OpCall& call, std::span<TensorMeta> outputs) {
  const size_t batch_axis = call.bool_attribute(0) ? 1 : 0;
  check_arguments(call, batch_axis);
  const Shape& a = call.inputs[0].shape();
  outputs[0] = TensorMeta(call.inputs[0].dtype(), Shape{a[1 - batch_axis], a[batch_axis], call.inputs[1].shape()[2]});
}

/// a and y may have their first two axes in either order.
void multiply(const OpCall& call, bool a_transposed, bool y_transposed) {
  const RowReader a(call.inputs[0]);
  const RowReader b(call.inputs[1]);
  RowWriter y(call.outputs[0]);
  const int64_t batches = call.inputs[1].size(0);
  const int64_t inner = call.inputs[1].size(1);
  const int64_t columns = call.inputs[1].size(2);
  const int64_t rows = call.inputs[0].size(a_transposed ? 0 : 1);
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t a_row = a_transposed ? row * batches + batch : batch * rows + row;
      const int64_t y_row = y_transposed ? row * batches + batch : batch * rows + row;
      for (int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += static_cast<double>(a(a_row, k)) * b(batch * inner + k, n);
        y.set(y_row, n, static_cast<float>(sum));
      }
    }
  }
}

void reference_batch_matmul(const OpCall& call) { multiply(call, false, false); }

void reference_transpose_batch_matmul(const OpCall& call) { multiply(call, call.bool_attribute(0), true); }

}  // namespace

Tensor batch_matmul(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  return dispatch_call(context, "batch_matmul", {a, b}, {}, {}, where);
}

Tensor transpose_batch_matmul(ForwardContext& context, const Tensor& a, const Tensor& b, bool transpose_a,
                              std::source_location where) {
  return dispatch_call(context, "transpose_batch_matmul", {a, b}, {}, {transpose_a}, where);
}

void register_batch_matmul(Registry& registry) {
  // The rows of the first axis are matrices here, each with a matrix of its own to be multiplied by.
  const Traits traits{.rowwise = false};
  registry.add(
      OpDef("batch_matmul(Tensor a, Tensor b) -> Tensor y", traits, infer_batch_matmul, reference_batch_matmul));
  registry.add(OpDef("transpose_batch_matmul(Tensor a, Tensor b, *, bool transpose_a = true) -> Tensor y", traits,
                     infer_transpose_batch_matmul, reference_transpose_batch_matmul));
}

}  // namespace reprise::ops
