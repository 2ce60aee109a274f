#include "kernels/ascend/expert_pieces.h"

namespace reprise::kernels::ascend {

void sort_rows(Composer& c, const TensorView& x, const TensorView& choice, int64_t experts, bool quantize,
               SortedRows& sorted) {
  const TensorView rows = without_gaps(c, x);
  const int64_t count = choice.elements();
  if (!sorted.rows.defined()) sorted.rows = c.scratch(quantize ? ACL_INT8 : x.dtype, {count, x.sizes[1]});
  if (!sorted.places.defined()) sorted.places = c.scratch(ACL_INT32, {count});
  if (quantize) sorted.scales = c.scratch(ACL_FLOAT, {count});
  sorted.counts = c.scratch(ACL_INT64, {experts});
  const int64_t range[] = {0, experts};
  constexpr int64_t kCountsOfExperts = 1;
  constexpr int64_t kPlacesOfChoices = 0;
  c.launch(c.aclnn().aclnnMoeInitRoutingV3, rows, choice, kAbsent, kAbsent, count, int64_t{0}, experts, int64_t{0},
           kCountsOfExperts, true, quantize ? int64_t{1} : int64_t{-1}, std::span<const int64_t>(range),
           kPlacesOfChoices, sorted.rows, sorted.places, sorted.counts, sorted.scales);
}

void multiply_groups(Composer& c, const GroupedProduct& p) {
  const TensorView matrix = TensorView::matrix_of(p.stack);
  const bool is_int8 = matrix.dtype == ACL_INT8;
  const aclDataType dtype = is_int8 ? ACL_BF16 : p.x.dtype == matrix.dtype ? p.x.dtype : ACL_FLOAT;
  const TensorView product = p.y.dtype == dtype ? p.y : c.scratch_like(p.y, dtype);
  if (p.clear) fill(c, product, scalar(0.0));
  const TensorView factor = is_int8 ? matrix : matrix_in(c, matrix, dtype);
  const TensorView x = is_int8 ? p.x : as_dtype(c, p.x, dtype);
  const TensorList scales = p.scale.defined() ? list_of(p.scale) : TensorList{};
  const TensorList row_scales = p.row_scales.defined() ? list_of(p.row_scales) : TensorList{};
  constexpr int64_t kOneOutput = 3;
  c.launch(c.aclnn().aclnnGroupedMatmulV5, list_of(x), list_of(factor), kAbsent, scales, kAbsent, kAbsent, kAbsent,
           row_scales, p.groups, kAbsent, kAbsent, kAbsent, kOneOutput, int64_t{0}, static_cast<int64_t>(p.list),
           int64_t{0}, kAbsent, list_of(product), kAbsent, kAbsent);
  if (product.dtype != p.y.dtype) move(c, product, p.y);
}

void offsets_from(Composer& c, const TensorView& counts, const TensorView& offsets) {
  fill(c, offsets.slice(0, 0, 1), scalar(int64_t{0}));
  c.launch(c.aclnn().aclnnCumsum, counts, int64_t{0}, ACL_INT32, offsets.slice(0, 1, offsets.sizes[0]));
}

void combine(Composer& c, const TensorView& rows, const TensorView& weights, const TensorView& places,
             const TensorView& out) {
  // The mode whose places may be -1 takes rows in groups; one group holds them all.
  constexpr int64_t kPaddedByRow = 3;
  const TensorView dense = without_gaps(c, rows);
  c.launch(c.aclnn().aclnnMoeFinalizeRoutingV2, dense.reshaped({1, dense.sizes[0], dense.sizes[1]}),
           places.reshaped({places.elements()}), kAbsent, kAbsent, kAbsent, weights, kAbsent, kPaddedByRow, out);
}

}  // namespace reprise::kernels::ascend
