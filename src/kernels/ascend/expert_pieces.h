#pragma once

#include "kernels/ascend/register_common.h"

// What the operators of mixtures of experts share.

namespace reprise::kernels::ascend {

/// Rows of tokens, sorted by expert.
struct SortedRows {
  TensorView rows;    ///< [tokens * k, columns]; those that no expert takes are not written
  TensorView scales;  ///< float32 [tokens * k], of int8 rows
  TensorView places;  ///< int32 [tokens * k]: the sorted row of each choice, -1 for none
  TensorView counts;  ///< int64 [experts]
};
/// Sorts x [tokens, columns] by `choice` int32 [tokens, k]; choices that are no expert are left out. `quantize`: the
/// rows become int8 with a scale each. Writes to what `sorted` has, and makes the rest.
void sort_rows(Composer& composer, const TensorView& x, const TensorView& choice, int64_t experts, bool quantize,
               SortedRows& sorted);

/// How a grouped product's groups are given.
enum class GroupList : int64_t { kEnds = 0, kCounts = 1 };
/// y = the rows of each group times that expert's matrix of `stack`; rows of no group are not written. `scale` and
/// `row_scales` belong to int8. Products of 16-bit floats and of int8 are rounded to 16 bits, whatever y is.
struct GroupedProduct {
  TensorView x;
  const Tensor& stack;
  TensorView scale, row_scales, groups;
  GroupList list = GroupList::kEnds;
  TensorView y;
  bool clear = false;  ///< rows of no group become 0
};
void multiply_groups(Composer& composer, const GroupedProduct& product);

/// int32 [experts + 1] from the counts.
void offsets_from(Composer& composer, const TensorView& counts, const TensorView& offsets);

/// out = the weighted sums of the rows of each token's experts.
void combine(Composer& composer, const TensorView& rows, const TensorView& weights, const TensorView& places,
             const TensorView& out);

}  // namespace reprise::kernels::ascend
