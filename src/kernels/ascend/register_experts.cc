#include "kernels/ascend/expert_pieces.h"
#include "kernels/ascend/register_families.h"

// A whole layer of experts behind their choice: sort, gate and up, SwiGLU, down, combine.

namespace reprise::kernels::ascend {
namespace {

constexpr size_t kX = 0, kWeights = 1, kExperts = 2, kGateUp = 3, kDown = 4;
constexpr size_t kGateUpScale = 4, kInt8Down = 5, kDownScale = 6;

void compose_float(Composer& c) {
  const TensorView x = c.input(kX);
  if (x.elements() == 0) return fill(c, c.output(1), scalar(int64_t{0}));
  const Tensor& gate_up = c.call().inputs[kGateUp];
  SortedRows sorted;
  sort_rows(c, x, c.input(kExperts), gate_up.size(0), false, sorted);
  const int64_t rows = sorted.rows.sizes[0];
  const TensorView both = c.scratch(x.dtype, {rows, gate_up.size(1)});
  const TensorView hidden = c.scratch(x.dtype, {rows, gate_up.size(1) / 2});
  const TensorView y = c.scratch(x.dtype, {rows, x.sizes[1]});
  const auto multiply = [&](const TensorView& from, const Tensor& stack, const TensorView& to) {
    multiply_groups(c, {.x = from,
                        .stack = stack,
                        .scale = {},
                        .row_scales = {},
                        .groups = sorted.counts,
                        .list = GroupList::kCounts,
                        .y = to});
  };
  multiply(sorted.rows, gate_up, both);
  c.launch(c.aclnn().aclnnSwiGlu, both, int64_t{-1}, hidden);
  multiply(hidden, c.call().inputs[kDown], y);
  combine(c, y, c.input(kWeights), sorted.places, c.output(0));
  offsets_from(c, sorted.counts, c.output(1));
}

void compose_int8(Composer& c) {
  const TensorView x = c.input(kX);
  if (x.elements() == 0) return fill(c, c.output(1), scalar(int64_t{0}));
  const Tensor& gate_up = c.call().inputs[kGateUp];
  SortedRows sorted;
  sort_rows(c, x, c.input(kExperts), gate_up.size(0), true, sorted);
  const int64_t rows = sorted.rows.sizes[0];
  const TensorView both = c.scratch(x.dtype, {rows, gate_up.size(1)});
  const TensorView hidden = c.scratch(ACL_INT8, {rows, gate_up.size(1) / 2});
  const TensorView hidden_scales = c.scratch(ACL_FLOAT, {rows});
  const TensorView y = c.scratch(x.dtype, {rows, x.sizes[1]});
  const auto multiply = [&](const TensorView& from, const TensorView& scales, size_t stack, size_t scale,
                            const TensorView& to) {
    multiply_groups(c, {.x = from,
                        .stack = c.call().inputs[stack],
                        .scale = c.input(scale),
                        .row_scales = scales,
                        .groups = sorted.counts,
                        .list = GroupList::kCounts,
                        .y = to});
  };
  multiply(sorted.rows, sorted.scales, kGateUp, kGateUpScale, both);
  swiglu_dynamic_quantize(c, both, hidden, hidden_scales);
  multiply(hidden, hidden_scales, kInt8Down, kDownScale, y);
  combine(c, y, c.input(kWeights), sorted.places, c.output(0));
  offsets_from(c, sorted.counts, c.output(1));
}

}  // namespace

void register_experts(ops::Registry& registry, const Resources& resources) {
  set_kernel<compose_float>(registry, "moe_experts", resources);
  set_kernel<compose_int8>(registry, "int8_moe_experts", resources);
}

}  // namespace reprise::kernels::ascend
