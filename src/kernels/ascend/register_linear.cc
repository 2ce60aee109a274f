#include <utility>

#include "device/device.h"
#include "kernels/ascend/register_families.h"
#include "ops/pack_weight.h"

// Products of floating-point matrices, and the packing of weights for all products.

namespace reprise::kernels::ascend {
namespace {

/// y = x times the matrix, + bias. Factors of 16 bits give a product that is rounded to 16 bits, whatever y is; a
/// float32 among them makes it one of float32. The bias is added in float32.
void compose_linear(Composer& c) {
  const TensorView y = c.output(0);
  const TensorView matrix = TensorView::matrix_of(c.call().inputs[1]);
  const TensorView bias = c.input(2);
  const TensorView given = c.input(0);
  const TensorView x = (given.lies_in_rows() ? given : without_gaps(c, given)).as_rows();
  const TensorView rows = y.reshaped({x.sizes[0], matrix.size_back(1)});
  if (x.sizes[1] == 0) {
    fill(c, rows, scalar(0.0));
    if (bias.defined()) add(c, rows, bias, rows);
    return;
  }
  const aclDataType dtype = x.dtype == matrix.dtype ? x.dtype : ACL_FLOAT;
  const bool stored = !bias.defined() && dtype == y.dtype;
  const TensorView product = stored ? rows : c.scratch_like(rows, dtype);
  const TensorView factor = matrix_in(c, matrix, dtype);
  const TensorView left = as_dtype(c, x, dtype);
  constexpr int8_t kKeepDtype = 0;
  if (factor.blocked) {
    c.launch(c.aclnn().aclnnMatmulWeightNz, left, factor, product, kKeepDtype);
  } else {
    c.launch(c.aclnn().aclnnMatmul, left, factor, product, kKeepDtype);
  }
  if (bias.defined()) {
    add(c, product, bias, rows);
  } else if (!stored) {
    move(c, product, rows);
  }
}

/// y [.., M, N] = a [.., M, K] times b [.., K, N].
void batch_product(Composer& c, const TensorView& a, const TensorView& b, const TensorView& y) {
  if (a.size_back(1) == 0) return fill(c, y, scalar(0.0));
  constexpr int8_t kKeepDtype = 0;
  c.launch(c.aclnn().aclnnBatchMatMul, a, b, y, kKeepDtype);
}

void compose_batch_matmul(Composer& c) { batch_product(c, c.input(0), c.input(1), c.output(0)); }

void compose_transpose_batch_matmul(Composer& c) {
  const TensorView a = c.call().bool_attribute(0) ? c.input(0).transposed(0, 1) : c.input(0);
  batch_product(c, a, c.input(1), c.output(0).transposed(0, 1));
}

/// The matrix units read blocks of 16-bit floats and of int8. Others stay plain.
Format packed_format(const Tensor& weight) { return weight.dtype() == DType::kF32 ? Format() : kBlockedFormat; }

size_t packed_storage(const ops::OpCall& call, size_t /*output*/, TensorMeta& meta) {
  const Tensor& weight = call.inputs[0];
  const Format format = packed_format(weight);
  ops::check_wanted_format(call, format);
  meta.format = format;
  return TensorView::matrix_of(Tensor(TensorMeta(meta.dtype, meta.shape, format), nullptr)).bytes();
}

void compose_pack(Composer& c) {
  const Tensor& weight = c.call().inputs[0];
  const Format format = packed_format(weight);
  if (format.is_plain()) return move(c, TensorView::of(weight), c.output(0));
  const TensorView matrix = TensorView::of(weight).transposed(0, 1);
  const TensorView turned = c.scratch_like(matrix, matrix.dtype);
  move(c, matrix, turned);
  const TensorMeta packed(weight.dtype(), weight.shape(), format);
  c.launch(c.aclnn().aclnnNpuFormatCast, turned, TensorView::matrix_of(c.output_tensor(0).with_meta(packed)));
}

/// Packing takes memory of its own for a while, so that loaders need to know of none; the device keeps it until the
/// work is done.
void run_pack(const ops::OpCall& call) {
  if (call.inputs[0].shape().elements() == 0) return;
  const size_t bytes = Composer::measure(call, compose_pack);
  ops::OpCall with_memory = call;
  if (bytes > 0) {
    with_memory.workspace =
        Tensor(TensorMeta(DType::kU8, Shape{static_cast<int64_t>(bytes)}), call.stream->device().allocate(bytes));
  }
  Composer composer(with_memory);
  compose_pack(composer);
}

}  // namespace

void register_linear(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_linear>(registry, "linear", resources);
  set_kernel<compose_batch_matmul>(registry, "batch_matmul", resources);
  set_kernel<compose_transpose_batch_matmul>(registry, "transpose_batch_matmul", resources);
  registry.get("pack_linear_weight")
      .set_kernel(std::string(kDeviceName),
                  {.run = run_pack, .output_storage = packed_storage, .resources = resources});
}

}  // namespace reprise::kernels::ascend
