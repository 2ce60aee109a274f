#include "kernels/ascend/register_families.h"

// Rows chosen by number, and rows turned by their positions' angles.

namespace reprise::kernels::ascend {
namespace {

void compose_embedding(Composer& c) { look_up(c, c.input(1), c.input(0), c.output(0)); }

void compose_gather_rows(Composer& c) {
  c.launch(c.aclnn().aclnnIndexSelect, c.input(0), int64_t{0}, c.input(1), c.output(0));
}

/// x [n, heads, width] in float32, turned, and rounded as y.
void compose_rotation(Composer& c, const TensorView& y) {
  const TensorView x = c.input(0);
  const TensorView wide = as_dtype(c, without_gaps(c, x), ACL_FLOAT);
  const TensorView turned =
      y.dtype == ACL_FLOAT && y.is_contiguous() && y.data != wide.data ? y : c.scratch_like(x, ACL_FLOAT);
  rotate(c, wide, turned, {}, {}, c.input(1), c.input(2));
  if (turned.data != y.data || c.measures()) move(c, turned, y);
}

void compose_rope(Composer& c) { compose_rotation(c, c.output(0)); }
void compose_rope_in_place(Composer& c) { compose_rotation(c, c.input(0)); }

}  // namespace

void rotate(Composer& c, const TensorView& x, const TensorView& y, const TensorView& other, const TensorView& other_y,
            const TensorView& positions, const TensorView& table) {
  const int64_t tokens = x.sizes[0];
  const int64_t width = x.sizes[2];
  const auto flat = [&](const TensorView& view) { return view.reshaped({tokens, view.sizes[1] * width}); };
  // The operator turns queries and keys, whether there are both or not.
  const TensorView second = other.defined() ? flat(other) : c.scratch(ACL_FLOAT, {tokens, width});
  const TensorView second_y = other.defined() ? flat(other_y) : c.scratch(ACL_FLOAT, {tokens, width});
  if (!other.defined()) fill(c, second, scalar(0.0));
  c.launch(c.aclnn().aclnnRopeWithSinCosCache, positions, flat(x), second, table, kAbsent, width, true, flat(y),
           second_y);
}

void register_rows(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_embedding>(registry, "embedding", resources);
  set_kernel<compose_gather_rows>(registry, "gather_rows", resources);
  set_kernel<compose_rope>(registry, "rope", resources);
  set_kernel<compose_rope_in_place>(registry, "rope_", resources);
}

}  // namespace reprise::kernels::ascend
