#include "kernels/ascend/register_families.h"

namespace reprise::kernels::ascend {
namespace {

void compose_add(Composer& c) { add(c, c.input(0), c.input(1), c.output(0)); }
void compose_add_in_place(Composer& c) { c.launch(c.aclnn().aclnnInplaceAdd, c.input(0), c.input(1), scalar(1.0)); }
void compose_mul(Composer& c) { c.launch(c.aclnn().aclnnMul, c.input(0), c.input(1), c.output(0)); }
void compose_mul_in_place(Composer& c) { c.launch(c.aclnn().aclnnInplaceMul, c.input(0), c.input(1)); }
void compose_divide(Composer& c) { c.launch(c.aclnn().aclnnDiv, c.input(0), c.input(1), c.output(0)); }
void compose_divide_in_place(Composer& c) { c.launch(c.aclnn().aclnnInplaceDiv, c.input(0), c.input(1)); }
void compose_silu(Composer& c) { c.launch(c.aclnn().aclnnSilu, c.input(0), c.output(0)); }
void compose_silu_in_place(Composer& c) { c.launch(c.aclnn().aclnnSilu, c.input(0), c.input(0)); }
void compose_reciprocal(Composer& c) { c.launch(c.aclnn().aclnnReciprocal, c.input(0), c.output(0)); }
void compose_reciprocal_in_place(Composer& c) { c.launch(c.aclnn().aclnnReciprocal, c.input(0), c.input(0)); }

void compose_swiglu(Composer& c) { swiglu(c, c.call().inputs[0], c.call().inputs[1], c.output(0)); }

}  // namespace

TensorView joined_halves(const Composer& composer, const Tensor& gate, const Tensor& up) {
  if (gate.rank() < 2) return {};
  TensorView joined = TensorView::of(gate);
  joined.sizes[joined.rank - 1] *= 2;
  // Rows that overlap are not halves of one tensor.
  if (joined.strides[joined.rank - 2] < joined.size_back(1)) return {};
  if (composer.measures()) return joined;
  const size_t half = static_cast<size_t>(gate.size(gate.rank() - 1)) * reprise::size_of(gate.dtype());
  if (static_cast<std::byte*>(gate.data()) + half != up.data() || gate.storage() != up.storage()) return {};
  for (size_t axis = 0; axis < gate.rank(); ++axis) {
    if (gate.stride(axis) != up.stride(axis)) return {};
  }
  return joined;
}

void swiglu(Composer& c, const Tensor& gate, const Tensor& up, const TensorView& y) {
  const TensorView joined = joined_halves(c, gate, up);
  if (joined.defined()) {
    c.launch(c.aclnn().aclnnSwiGlu, joined, int64_t{-1}, y);
    if (!c.measures()) return;
  }
  c.launch(c.aclnn().aclnnSilu, TensorView::of(gate), y);
  c.launch(c.aclnn().aclnnInplaceMul, y, TensorView::of(up));
}

void register_elementwise(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_add>(registry, "add", resources);
  set_kernel<compose_add_in_place>(registry, "add_", resources);
  set_kernel<compose_mul>(registry, "mul", resources);
  set_kernel<compose_mul_in_place>(registry, "mul_", resources);
  set_kernel<compose_divide>(registry, "divide", resources);
  set_kernel<compose_divide_in_place>(registry, "divide_", resources);
  set_kernel<compose_silu>(registry, "silu", resources);
  set_kernel<compose_silu_in_place>(registry, "silu_", resources);
  set_kernel<compose_reciprocal>(registry, "reciprocal", resources);
  set_kernel<compose_reciprocal_in_place>(registry, "reciprocal_", resources);
  set_kernel<compose_swiglu>(registry, "swiglu", resources);
}

}  // namespace reprise::kernels::ascend
