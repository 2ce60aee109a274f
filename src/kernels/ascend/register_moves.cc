#include <vector>

#include "kernels/ascend/register_families.h"

// Operators that move elements and do not compute: cast, copy, cat, scatter_rows.

namespace reprise::kernels::ascend {
namespace {

void compose_cast(Composer& c) { move(c, c.input(0), c.output(0)); }
void compose_copy(Composer& c) { c.launch(c.aclnn().aclnnInplaceCopy, c.output(0), c.input(0)); }
void compose_copy_over(Composer& c) { c.launch(c.aclnn().aclnnInplaceCopy, c.input(0), c.input(1)); }

void compose_cat(Composer& c) {
  std::vector<TensorView> parts;
  for (size_t i = 0; i < c.call().inputs.size() && c.has(i); ++i) {
    if (c.input(i).elements() > 0) parts.push_back(c.input(i));
  }
  c.launch(c.aclnn().aclnnCat, TensorList{parts}, c.call().int_attribute(0), c.output(0));
}

/// Rows of `updates` to the rows of `y` that `rows` names. What moves rows leaves out negative numbers only, so those
/// behind the end become negative first.
void scatter(Composer& c, const TensorView& y, const TensorView& rows, const TensorView& updates) {
  if (rows.elements() == 0 || y.elements() == 0) return;
  const int64_t count = y.sizes[0];
  const int64_t width = y.elements() / count;
  const TensorView places = c.scratch(ACL_INT32, {rows.elements()});
  const TensorView outside = c.scratch(ACL_BOOL, {rows.elements()});
  move(c, rows, places);
  c.launch(c.aclnn().aclnnGeTensor, places, constant(c, count, ACL_INT32), outside);
  masked_fill(c, places, outside, scalar(int64_t{-1}));
  store_rows(c, updates.reshaped({rows.elements(), 1, width}), y.reshaped({count, 1, 1, width}), {}, {}, places);
}

void compose_scatter_rows(Composer& c) {
  move(c, c.input(0), c.output(0));
  scatter(c, c.output(0), c.input(1), c.input(2));
}

void compose_scatter_rows_in_place(Composer& c) { scatter(c, c.input(0), c.input(1), c.input(2)); }

}  // namespace

void register_moves(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_cast>(registry, "cast", resources);
  set_kernel<compose_copy>(registry, "copy", resources);
  set_kernel<compose_copy_over>(registry, "copy_", resources);
  set_kernel<compose_cat>(registry, "cat", resources);
  set_kernel<compose_scatter_rows>(registry, "scatter_rows", resources);
  set_kernel<compose_scatter_rows_in_place>(registry, "scatter_rows_", resources);
}

}  // namespace reprise::kernels::ascend
