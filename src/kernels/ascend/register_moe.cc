#include "kernels/ascend/expert_pieces.h"
#include "kernels/ascend/register_families.h"

// The steps of a mixture of experts.

namespace reprise::kernels::ascend {
namespace {

void compose_gating(Composer& c) {
  const TensorView logits = as_dtype(c, without_gaps(c, c.input(0)), ACL_FLOAT);
  const TensorView weights = c.output(0);
  const TensorView experts = c.output(1);
  const int64_t tokens = logits.sizes[0];
  TensorView padding;
  if (c.has(1)) {
    const TensorView numbers = c.scratch(ACL_INT32, {tokens});
    padding = c.scratch(ACL_BOOL, {tokens});
    c.launch(c.aclnn().aclnnArange, scalar(int64_t{0}), scalar(tokens), scalar(int64_t{1}), numbers);
    c.launch(c.aclnn().aclnnGeTensor, numbers, c.input(1), padding);
  }
  const TensorView unused = c.scratch(ACL_FLOAT, {1});
  c.launch(c.aclnn().aclnnMoeGatingTopKSoftmaxV2, logits, padding, c.call().int_attribute(0),
           c.call().bool_attribute(1) ? int64_t{1} : int64_t{0}, false, weights, experts, unused);
  if (!padding.defined()) return;
  masked_fill(c, weights, padding.reshaped({tokens, 1}), scalar(0.0));
  masked_fill(c, experts, padding.reshaped({tokens, 1}), scalar(int64_t{-1}));
}

void compose_route(Composer& c) {
  const TensorView choice = c.input(0);
  const TensorView offsets = c.output(0);
  const TensorView tokens = c.output(1);
  if (choice.elements() == 0) return fill(c, offsets, scalar(int64_t{0}));
  // The rows that are sorted hold their token's number, which float32 represents.
  const TensorView numbers = c.scratch(ACL_FLOAT, {choice.sizes[0], 1});
  c.launch(c.aclnn().aclnnArange, scalar(0.0), scalar(static_cast<double>(choice.sizes[0])), scalar(1.0),
           numbers.reshaped({choice.sizes[0]}));
  SortedRows sorted;
  sorted.rows = c.scratch(ACL_FLOAT, {choice.elements(), 1});
  sorted.places = c.output(2).reshaped({choice.elements()});
  fill(c, sorted.rows, scalar(-1.0));
  sort_rows(c, numbers, choice, offsets.sizes[0] - 1, false, sorted);
  move(c, sorted.rows.reshaped({choice.elements()}), tokens);
  offsets_from(c, sorted.counts, offsets);
}

/// Where groups end, as grouped products want it.
TensorView ends_of(Composer& c, const TensorView& offsets) {
  return as_dtype(c, offsets.slice(0, 1, offsets.sizes[0]), ACL_INT64);
}

void compose_grouped_linear(Composer& c) {
  multiply_groups(c, {.x = without_gaps(c, c.input(0)),
                      .stack = c.call().inputs[1],
                      .scale = {},
                      .row_scales = {},
                      .groups = ends_of(c, c.input(2)),
                      .list = GroupList::kEnds,
                      .y = c.output(0),
                      .clear = true});
}

void compose_int8_grouped_linear(Composer& c) {
  multiply_groups(c, {.x = without_gaps(c, c.input(0)),
                      .stack = c.call().inputs[1],
                      .scale = c.input(3),
                      .row_scales = c.input(4),
                      .groups = ends_of(c, c.input(2)),
                      .list = GroupList::kEnds,
                      .y = c.output(0),
                      .clear = true});
}

void compose_combine(Composer& c) { combine(c, c.input(0), c.input(1), c.input(2), c.output(0)); }

void compose_count_rows(Composer& c) {
  const TensorView offsets = c.input(0);
  const TensorView counts = c.input(1);
  const int64_t experts = counts.sizes[0];
  const TensorView rows = c.scratch(ACL_INT32, {experts});
  c.launch(c.aclnn().aclnnSub, offsets.slice(0, 1, experts + 1), offsets.slice(0, 0, experts), scalar(int64_t{1}),
           rows);
  c.launch(c.aclnn().aclnnInplaceAdd, counts, rows, scalar(int64_t{1}));
}

}  // namespace

void register_moe(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_gating>(registry, "moe_gating_top_k", resources);
  set_kernel<compose_route>(registry, "moe_route", resources);
  set_kernel<compose_grouped_linear>(registry, "grouped_linear", resources);
  set_kernel<compose_int8_grouped_linear>(registry, "int8_grouped_linear", resources);
  set_kernel<compose_combine>(registry, "moe_combine", resources);
  set_kernel<compose_count_rows>(registry, "moe_count_rows", resources);
}

}  // namespace reprise::kernels::ascend
