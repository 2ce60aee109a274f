#include "kernels/ascend/register_families.h"

// Norms, alone and with what stands before and behind them. Fused operators of aclnn take the weight in the dtype of
// the rows; with a wider weight the same bits come from smaller operators.

namespace reprise::kernels::ascend {
namespace {

/// Where fused operators write what nobody wants.
TensorView reciprocal_root(Composer& c, const TensorView& x) {
  TensorView like = x;
  like.sizes[like.rank - 1] = 1;
  return c.scratch_like(like, ACL_FLOAT);
}

/// Arguments of the fused norms: rows, what is added to them, and the weight.
struct AddedRows {
  TensorView x, residual, weight;
  double epsilon = 0;
  bool fits_fused() const { return weight.dtype == x.dtype; }
};

AddedRows added_rows(const Composer& c) { return {c.input(0), c.input(1), c.input(2), c.call().float_attribute(0)}; }

/// sum = x + residual and y = sum normed; `bias` may be absent.
void add_norm(Composer& c, const AddedRows& rows, const TensorView& bias, const TensorView& y, const TensorView& sum) {
  if (rows.fits_fused() && !bias.defined()) {
    c.launch(c.aclnn().aclnnAddRmsNorm, rows.x, rows.residual, rows.weight, rows.epsilon, y, reciprocal_root(c, rows.x),
             sum);
    return;
  }
  add(c, rows.x, rows.residual, sum);
  if (bias.defined()) {
    rms_norm_bias(c, sum, rows.weight, bias, rows.epsilon, y);
  } else {
    rms_norm(c, sum, rows.weight, rows.epsilon, y);
  }
}

void compose_rms_norm(Composer& c) { rms_norm(c, c.input(0), c.input(1), c.call().float_attribute(0), c.output(0)); }
void compose_rms_norm_in_place(Composer& c) {
  rms_norm(c, c.input(0), c.input(1), c.call().float_attribute(0), c.input(0));
}
void compose_rms_norm_bias(Composer& c) {
  rms_norm_bias(c, c.input(0), c.input(1), c.input(2), c.call().float_attribute(0), c.output(0));
}

void compose_add_norm(Composer& c) { add_norm(c, added_rows(c), {}, c.output(0), c.output(1)); }
void compose_add_norm_bias(Composer& c) { add_norm(c, added_rows(c), c.input(3), c.output(0), c.output(1)); }

void compose_add_norm_cast(Composer& c) {
  const AddedRows rows = added_rows(c);
  if (rows.fits_fused() && is_16_bit_float(rows.x.dtype)) {
    c.launch(c.aclnn().aclnnAddRmsNormCast, rows.x, rows.residual, rows.weight, rows.epsilon, c.output(0), c.output(1),
             reciprocal_root(c, rows.x), c.output(2));
    return;
  }
  add_norm(c, rows, {}, c.output(1), c.output(2));
  move(c, c.output(1), c.output(0));
}

/// The fused operator divides by a scale of 16 bits for each column; with float32 scales the steps give the numbers of
/// the operators that the fusion stands for.
template <bool kBias>
void compose_add_norm_quantize(Composer& c) {
  const AddedRows rows = added_rows(c);
  constexpr size_t kScale = kBias ? 4 : 3;
  const TensorView scale = c.input(kScale);
  const TensorView offset = c.input(kScale + 1);
  const int64_t columns = rows.x.size_back(1);
  const auto fits = [&](const TensorView& vector) { return !vector.defined() || vector.elements() == columns; };
  if (!kBias && rows.fits_fused() && rows.x.dtype == ACL_BF16 && divides_by(rows.x, scale) && fits(scale) &&
      fits(offset) && c.aclnn().aclnnAddRmsNormQuant.available()) {
    const TensorView unused = c.scratch(ACL_INT8, {1});
    c.launch(c.aclnn().aclnnAddRmsNormQuant, rows.x, rows.residual, rows.weight, scale, kAbsent, offset, kAbsent,
             int64_t{-1}, rows.epsilon, true, c.output(0), unused, c.output(1));
    return;
  }
  const TensorView y = c.scratch_like(c.output(1), rows.x.dtype);
  add_norm(c, rows, kBias ? c.input(3) : TensorView(), y, c.output(1));
  quantize(c, y, scale, offset, c.output(0));
}

template <bool kBias>
void compose_add_norm_dynamic_quantize(Composer& c) {
  const AddedRows rows = added_rows(c);
  const TensorView smooth = c.input(kBias ? 4 : 3);
  const bool fits = rows.fits_fused() && is_16_bit_float(rows.x.dtype);
  if (!kBias && fits && (!smooth.defined() || smooth.dtype == rows.x.dtype)) {
    const TensorView unused = c.scratch(ACL_INT8, {1});
    const TensorView unused_scales = c.scratch(ACL_FLOAT, {1});
    c.launch(c.aclnn().aclnnAddRmsNormDynamicQuant, rows.x, rows.residual, rows.weight, smooth, kAbsent, rows.epsilon,
             c.output(0), unused, c.output(2), c.output(1), unused_scales);
    return;
  }
  const TensorView y = c.scratch_like(c.output(2), rows.x.dtype);
  add_norm(c, rows, kBias ? c.input(3) : TensorView(), y, c.output(2));
  dynamic_quantize(c, y, smooth, c.output(0), c.output(1));
}

/// hidden = table[ids] and y = hidden normed; `bias` may be absent.
void embedding_norm(Composer& c, const TensorView& bias, const TensorView& y, const TensorView& hidden) {
  look_up(c, c.input(1), c.input(0), hidden);
  const double epsilon = c.call().float_attribute(1);
  if (bias.defined()) {
    rms_norm_bias(c, hidden, c.input(2), bias, epsilon, y);
  } else {
    rms_norm(c, hidden, c.input(2), epsilon, y);
  }
}

void compose_embedding_norm(Composer& c) { embedding_norm(c, {}, c.output(0), c.output(1)); }

void compose_embedding_norm_quantize(Composer& c) {
  const TensorView y = c.scratch_like(c.output(1), c.output(1).dtype);
  embedding_norm(c, c.input(3), y, c.output(1));
  quantize(c, y, c.input(4), c.input(5), c.output(0));
}

void compose_embedding_norm_dynamic_quantize(Composer& c) {
  const TensorView y = c.scratch_like(c.output(2), c.output(2).dtype);
  embedding_norm(c, c.input(3), y, c.output(2));
  dynamic_quantize(c, y, c.input(4), c.output(0), c.output(1));
}

}  // namespace

void rms_norm(Composer& c, const TensorView& x, const TensorView& weight, double epsilon, const TensorView& y) {
  c.launch(c.aclnn().aclnnRmsNorm, x, weight, epsilon, y, reciprocal_root(c, x));
}

void rms_norm_bias(Composer& c, const TensorView& x, const TensorView& weight, const TensorView& bias, double epsilon,
                   const TensorView& y) {
  // In float32, so that it is rounded once, behind the bias.
  const TensorView wide = as_dtype(c, x, ACL_FLOAT);
  const TensorView wide_weight = as_dtype(c, weight, ACL_FLOAT);
  const TensorView normed = y.dtype == ACL_FLOAT && y.is_contiguous() ? y : c.scratch_like(x, ACL_FLOAT);
  rms_norm(c, wide, wide_weight, epsilon, normed);
  add(c, normed, bias, y);
}

void register_norms(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_rms_norm>(registry, "rms_norm", resources);
  set_kernel<compose_rms_norm_in_place>(registry, "rms_norm_", resources);
  set_kernel<compose_rms_norm_bias>(registry, "rms_norm_bias", resources);
  set_kernel<compose_add_norm>(registry, "add_rms_norm", resources);
  set_kernel<compose_add_norm_bias>(registry, "add_rms_norm_bias", resources);
  set_kernel<compose_add_norm_cast>(registry, "add_rms_norm_cast", resources);
  set_kernel<compose_add_norm_quantize<false>>(registry, "add_rms_norm_quantize", resources);
  set_kernel<compose_add_norm_quantize<true>>(registry, "add_rms_norm_bias_quantize", resources);
  set_kernel<compose_add_norm_dynamic_quantize<false>>(registry, "add_rms_norm_dynamic_quantize", resources);
  set_kernel<compose_add_norm_dynamic_quantize<true>>(registry, "add_rms_norm_bias_dynamic_quantize", resources);
  set_kernel<compose_embedding_norm>(registry, "embedding_rms_norm", resources);
  set_kernel<compose_embedding_norm_quantize>(registry, "embedding_rms_norm_quantize", resources);
  set_kernel<compose_embedding_norm_dynamic_quantize>(registry, "embedding_rms_norm_dynamic_quantize", resources);
}

}  // namespace reprise::kernels::ascend
