#include "kernels/ascend/register_common.h"

#include "base/error.h"

namespace reprise::kernels::ascend {

bool is_empty(const ops::OpCall& call) {
  if (call.op.schema().outputs.empty()) return call.inputs[0].defined() && call.inputs[0].shape().elements() == 0;
  if (call.outputs.empty()) return false;
  for (const Tensor& output : call.outputs) {
    if (output.shape().elements() > 0) return false;
  }
  return true;
}

void move(Composer& composer, const TensorView& from, const TensorView& to) {
  if (to.elements() == 0) return;
  if (from.dtype == to.dtype) {
    composer.launch(composer.aclnn().aclnnInplaceCopy, to, from);
  } else {
    composer.launch(composer.aclnn().aclnnCast, from, to.dtype, to);
  }
}

TensorView as_dtype(Composer& composer, const TensorView& view, aclDataType dtype) {
  if (!view.defined() || view.dtype == dtype) return view;
  const TensorView result = composer.scratch_like(view, dtype);
  move(composer, view, result);
  return result;
}

TensorView without_gaps(Composer& composer, const TensorView& view) {
  if (view.is_contiguous()) return view;
  const TensorView result = composer.scratch_like(view, view.dtype);
  move(composer, view, result);
  return result;
}

void fill(Composer& composer, const TensorView& to, const ScalarArgument& value) {
  if (to.elements() > 0) composer.launch(composer.aclnn().aclnnInplaceFillScalar, to, value);
}

TensorView constant(Composer& composer, int64_t value, aclDataType dtype) {
  const TensorView result = composer.scratch(dtype, {1});
  fill(composer, result, scalar(value));
  return result;
}

void add(Composer& composer, const TensorView& a, const TensorView& b, const TensorView& out) {
  composer.launch(composer.aclnn().aclnnAdd, a, b, scalar(1.0), out);
}

void masked_fill(Composer& composer, const TensorView& to, const TensorView& mask, const ScalarArgument& value) {
  composer.launch(composer.aclnn().aclnnInplaceMaskedFillScalar, to, mask, value);
}

void look_up(Composer& composer, const TensorView& table, const TensorView& ids, const TensorView& y) {
  const TensorView rows = y.dtype == table.dtype ? y : composer.scratch_like(y, table.dtype);
  composer.launch(composer.aclnn().aclnnEmbedding, table, ids, rows);
  if (rows.dtype != y.dtype) move(composer, rows, y);
}

TensorView matrix_in(Composer& composer, const TensorView& matrix, aclDataType dtype) {
  if (matrix.dtype == dtype) return matrix;
  if (!matrix.blocked) return as_dtype(composer, without_gaps(composer, matrix), dtype);
  const TensorView plain = composer.scratch_like(matrix, matrix.dtype);
  composer.launch(composer.aclnn().aclnnNpuFormatCast, matrix, plain);
  return as_dtype(composer, plain, dtype);
}

}  // namespace reprise::kernels::ascend
