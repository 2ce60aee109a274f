#include "kernels/ascend/register_families.h"

// From floating point to int8: with one scale, with a scale for each row, and behind SwiGLU.

namespace reprise::kernels::ascend {
namespace {

void compose_quantize(Composer& c) { quantize(c, c.input(0), c.input(1), c.input(2), c.output(0)); }

void compose_dynamic_quantize(Composer& c) { dynamic_quantize(c, c.input(0), c.input(1), c.output(0), c.output(1)); }

/// Rows that no quantising operator knows: float32, or with factors of float32 for each column. Routing to experts
/// quantises on the way, and to one expert it is nothing else.
void quantize_by_routing(Composer& c, const TensorView& x, const TensorView& smooth, const TensorView& y,
                         const TensorView& scales) {
  const TensorView rows = without_gaps(c, x).as_rows();
  const int64_t count = rows.sizes[0];
  const TensorView experts = c.scratch(ACL_INT32, {count, 1});
  const TensorView places = c.scratch(ACL_INT32, {count});
  const TensorView counts = c.scratch(ACL_INT64, {1});
  const int64_t range[] = {0, 1};
  fill(c, experts, scalar(int64_t{0}));
  const TensorView factors = smooth.defined() ? smooth.reshaped({1, rows.sizes[1]}) : smooth;
  c.launch(c.aclnn().aclnnMoeInitRoutingV3, rows, experts, factors, kAbsent, count, int64_t{0}, int64_t{1}, int64_t{0},
           int64_t{1}, true, int64_t{1}, std::span<const int64_t>(range), int64_t{0},
           y.reshaped({count, rows.sizes[1]}), places, counts, scales.reshaped({count}));
}

void compose_swiglu_quantize(Composer& c) {
  const TensorView y = c.scratch_like(c.input(0), c.input(0).dtype);
  swiglu(c, c.call().inputs[0], c.call().inputs[1], y);
  quantize(c, y, c.input(2), c.input(3), c.output(0));
}

void compose_swiglu_dynamic_quantize(Composer& c) {
  const Tensor& gate = c.call().inputs[0];
  const Tensor& up = c.call().inputs[1];
  const TensorView joined = joined_halves(c, gate, up);
  if (joined.defined() && !c.has(2)) {
    swiglu_dynamic_quantize(c, joined, c.output(0), c.output(1));
    if (!c.measures()) return;
  }
  const TensorView y = c.scratch_like(c.input(0), c.input(0).dtype);
  swiglu(c, gate, up, y);
  dynamic_quantize(c, y, c.input(2), c.output(0), c.output(1));
}

}  // namespace

bool divides_by(const TensorView& x, const TensorView& scale) {
  return is_16_bit_float(x.dtype) && scale.dtype == x.dtype;
}

TensorView spread(Composer& c, const TensorView& one, const TensorView& like) {
  const TensorView all = c.scratch_like(like, one.dtype);
  TensorView repeated = one;
  repeated.sizes[0] = like.sizes[0];
  repeated.strides[0] = 0;
  move(c, repeated, all);
  return all;
}

TensorView inverse_of(Composer& c, const TensorView& scale) {
  const TensorView inverse = c.scratch_like(scale, scale.dtype);
  c.launch(c.aclnn().aclnnReciprocal, scale, inverse);
  return inverse;
}

void quantize(Composer& c, const TensorView& x, const TensorView& scale, const TensorView& offset,
              const TensorView& y) {
  if (divides_by(x, scale) && c.aclnn().aclnnQuantize.available()) {
    // Zero points are as many as scales.
    const bool more_scales = offset.defined() && offset.elements() < scale.elements();
    const bool more_offsets = offset.defined() && offset.elements() > scale.elements();
    c.launch(c.aclnn().aclnnQuantize, x, more_offsets ? spread(c, scale, offset) : scale,
             more_scales ? spread(c, offset, scale) : offset, ACL_INT8, int32_t{-1}, y);
    return;
  }
  // Rows and scales have one dtype; 16 bits are too few for just any scale.
  const TensorView factor = inverse_of(c, as_dtype(c, scale, ACL_FLOAT));
  c.launch(c.aclnn().aclnnAscendQuantV3, as_dtype(c, x, ACL_FLOAT), factor, as_dtype(c, offset, ACL_FLOAT), false,
           "round", static_cast<int32_t>(ACL_INT8), int32_t{-1}, y);
}

void swiglu_dynamic_quantize(Composer& c, const TensorView& joined, const TensorView& y, const TensorView& scales) {
  constexpr int64_t kMostColumns = 8192;
  if (joined.size_back(1) <= kMostColumns) {
    c.launch(c.aclnn().aclnnSwiGluQuant, joined, TensorView::of(c.resources().one), kAbsent, kAbsent, true, "dynamic",
             y, scales);
  } else if (is_16_bit_float(joined.dtype)) {
    c.launch(c.aclnn().aclnnDequantSwigluQuant, joined, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, true,
             "dynamic", y, scales);
  } else {
    const TensorView hidden = c.scratch_like(y, joined.dtype);
    c.launch(c.aclnn().aclnnSwiGlu, joined, int64_t{-1}, hidden);
    dynamic_quantize(c, hidden, {}, y, scales);
  }
}

void dynamic_quantize(Composer& c, const TensorView& x, const TensorView& smooth, const TensorView& y,
                      const TensorView& scales) {
  if (y.elements() == 0) return fill(c, scales, scalar(0.0));
  if (!is_16_bit_float(x.dtype) || (smooth.defined() && smooth.dtype != x.dtype))
    return quantize_by_routing(c, x, smooth, y, scales);
  c.launch(c.aclnn().aclnnDynamicQuant, x, smooth, y, scales);
}

void register_quantize(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_quantize>(registry, "quantize", resources);
  set_kernel<compose_dynamic_quantize>(registry, "dynamic_quantize", resources);
  set_kernel<compose_swiglu_quantize>(registry, "swiglu_quantize", resources);
  set_kernel<compose_swiglu_dynamic_quantize>(registry, "swiglu_dynamic_quantize", resources);
}

}  // namespace reprise::kernels::ascend
