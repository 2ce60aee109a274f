#include "kernels/ascend/register_families.h"

// Products of int8: exact sums, then scales and biases in float32, rounded once.

namespace reprise::kernels::ascend {
namespace {

constexpr size_t kInput = 0, kWeight = 1, kScale = 2, kRowScales = 3, kQuantBias = 4, kBias = 5;

struct Int8Product {
  TensorView x, matrix, scale, row_scales, bias, y;
};

void multiply(Composer& c, const Int8Product& p) {
  if (p.matrix.blocked && c.aclnn().aclnnQuantMatmulWeightNz.available()) {
    c.launch(c.aclnn().aclnnQuantMatmulWeightNz, p.x, p.matrix, p.row_scales, p.scale, kAbsent, kAbsent, kAbsent,
             kAbsent, p.bias, false, false, int64_t{0}, p.y);
  } else {
    c.launch(c.aclnn().aclnnQuantMatmulV4, p.x, p.matrix, p.scale, kAbsent, p.row_scales, p.bias, false, false, p.y);
  }
}

/// The formula in steps, for what no product of aclnn does in one: float32 results, and both biases at once.
void scale_sums(Composer& c, Int8Product p, const TensorView& bias, bool has_inputs) {
  const TensorView y = p.y;
  const TensorView wide = y.dtype == ACL_FLOAT ? y : c.scratch_like(y, ACL_FLOAT);
  const TensorView row_scales = p.row_scales;
  p.row_scales = {};
  p.y = c.scratch_like(y, ACL_INT32);
  if (has_inputs) {
    multiply(c, p);
  } else {
    fill(c, p.y, scalar(int64_t{0}));
    if (p.bias.defined()) c.launch(c.aclnn().aclnnInplaceAdd, p.y, p.bias, scalar(int64_t{1}));
  }
  move(c, p.y, wide);
  c.launch(c.aclnn().aclnnInplaceMul, wide, p.scale);
  if (row_scales.defined()) c.launch(c.aclnn().aclnnInplaceMul, wide, row_scales.reshaped({y.sizes[0], 1}));
  if (bias.defined()) c.launch(c.aclnn().aclnnInplaceAdd, wide, bias, scalar(1.0));
  if (y.dtype != ACL_FLOAT) move(c, wide, y);
}

void compose_int8_linear(Composer& c) {
  const TensorView given = c.input(kInput);
  const TensorView x = (given.lies_in_rows() ? given : without_gaps(c, given)).as_rows();
  Int8Product product{.x = x,
                      .matrix = TensorView::matrix_of(c.call().inputs[kWeight]),
                      .scale = c.input(kScale),
                      .row_scales = c.has(kRowScales) ? c.input(kRowScales).reshaped({x.sizes[0]}) : TensorView(),
                      .bias = {},
                      .y = c.output(0).reshaped({x.sizes[0], c.call().inputs[kWeight].size(0)})};
  const bool both = c.has(kQuantBias) && c.has(kBias);
  if (product.y.dtype == ACL_FLOAT || both || x.sizes[1] == 0) {
    product.bias = c.input(kQuantBias);
    return scale_sums(c, product, c.input(kBias), x.sizes[1] > 0);
  }
  product.bias = c.has(kQuantBias) ? c.input(kQuantBias) : c.input(kBias);
  multiply(c, product);
}

}  // namespace

void register_int8_linear(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_int8_linear>(registry, "int8_linear", resources);
}

}  // namespace reprise::kernels::ascend
