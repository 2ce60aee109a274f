#include <vector>

#include "kernels/ascend/register_families.h"
#include "ops/convolution.h"

// causal_conv1d: the operator of aclnn takes where sequences lie and which state each has as lists of the host, and
// computes in one dtype. Slots are known to the device alone, so that the states of a step's sequences are gathered,
// numbered from 0, and put back.

namespace reprise::kernels::ascend {
namespace {

constexpr int32_t kPadding = -1;

/// Tiling: the first row of each sequence and the last one's end, the number of each (kPadding: padding), and whether
/// it has a state.
void plan_convolution(const ops::OpCall& call, ops::Tiling& tiling) {
  ops::check_convolution_lists(call);
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  const int64_t sequences = call.inputs[4].size(0);
  tiling.values.reserve(3 * queries.size() + 1);
  int32_t row = 0;
  tiling.values.push_back(row);
  for (const int32_t rows : queries) tiling.values.push_back(row += rows);
  for (size_t s = 0; s < queries.size(); ++s) {
    tiling.values.push_back(keys[s] == 0 ? kPadding : static_cast<int32_t>(s));
  }
  for (size_t s = 0; s < queries.size(); ++s) tiling.values.push_back(keys[s] > queries[s] ? 1 : 0);
  tiling.tiles = sequences;
}

struct SequenceLists {
  std::vector<int64_t> starts, numbers, has_state;
};

SequenceLists lists_of(const Composer& c) {
  const auto sequences = static_cast<size_t>(c.call().inputs[4].size(0));
  SequenceLists lists;
  if (c.measures() || c.call().tiling == nullptr) {
    lists.starts.assign(sequences + 1, 0);
    lists.starts.back() = c.call().inputs[0].size(0);
    for (size_t s = 0; s < sequences; ++s) lists.numbers.push_back(static_cast<int64_t>(s));
    lists.has_state.assign(sequences, 1);
    return lists;
  }
  const std::span<const int32_t> values(c.call().tiling->values);
  const auto part = [&](size_t begin, size_t count) {
    const auto from = values.subspan(begin, count);
    return std::vector<int64_t>(from.begin(), from.end());
  };
  lists.starts = part(0, sequences + 1);
  lists.numbers = part(sequences + 1, sequences);
  lists.has_state = part(2 * sequences + 1, sequences);
  return lists;
}

/// The states of a step's sequences, one row each, and where they go back to.
struct GatheredStates {
  TensorView rows;    ///< float32 [sequences, kept * channels]
  TensorView places;  ///< int32 [sequences]; -1 for what is no slot
};

GatheredStates gather(Composer& c, const TensorView& states, const TensorView& slots) {
  const int64_t sequences = slots.sizes[0];
  const int64_t count = states.sizes[0];
  GatheredStates gathered;
  gathered.places = c.scratch(ACL_INT32, {sequences});
  const TensorView outside = c.scratch(ACL_BOOL, {sequences});
  const TensorView safe = c.scratch(ACL_INT32, {sequences});
  move(c, slots, gathered.places);
  c.launch(c.aclnn().aclnnGeTensor, slots, constant(c, count, ACL_INT32), outside);
  masked_fill(c, gathered.places, outside, scalar(int64_t{-1}));
  const TensorView zero = constant(c, 0, ACL_INT32);
  c.launch(c.aclnn().aclnnMaximum, gathered.places, zero, safe);
  const TensorView rows = c.scratch(states.dtype, {sequences, states.sizes[1]});
  c.launch(c.aclnn().aclnnIndexSelect, states, int64_t{0}, safe, rows);
  c.launch(c.aclnn().aclnnLtTensor, gathered.places, zero, outside);
  masked_fill(c, rows, outside.reshaped({sequences, 1}), scalar(0.0));
  gathered.rows = as_dtype(c, rows, ACL_FLOAT);
  return gathered;
}

void compose_convolution(Composer& c) {
  const TensorView y = c.output(0);
  const TensorView weight = c.input(1);
  const int64_t channels = weight.sizes[0];
  const int64_t kept = weight.sizes[1] - 1;
  const TensorView slots = c.input(4);
  const int64_t sequences = slots.sizes[0];
  const TensorView wide_y = y.dtype == ACL_FLOAT ? y : c.scratch_like(y, ACL_FLOAT);
  fill(c, wide_y, scalar(0.0));  // padding is not written
  const TensorView states = c.input(3).reshaped({c.input(3).sizes[0], kept * channels});
  GatheredStates gathered;
  gathered.rows = kept == 0 ? c.scratch(ACL_FLOAT, {sequences, 0}) : TensorView();
  if (kept > 0) gathered = gather(c, states, slots);
  const TensorView x = as_dtype(c, without_gaps(c, c.input(0)), ACL_FLOAT);
  const TensorView taps = without_gaps(c, weight.transposed(0, 1));
  const SequenceLists lists = lists_of(c);
  c.launch(c.aclnn().aclnnCausalConv1d, x, taps, c.input(2), gathered.rows.reshaped({sequences, kept, channels}),
           std::span<const int64_t>(lists.starts), std::span<const int64_t>(lists.numbers),
           std::span<const int64_t>(lists.has_state), kAbsent, int64_t{0}, int64_t{kPadding}, int64_t{0}, wide_y);
  if (wide_y.dtype != y.dtype) move(c, wide_y, y);
  if (kept == 0) return;
  const TensorView changed = as_dtype(c, gathered.rows, states.dtype);
  store_rows(c, changed.reshaped({sequences, 1, kept * channels}),
             states.reshaped({states.sizes[0], 1, 1, kept * channels}), {}, {}, gathered.places);
}

}  // namespace

void register_convolution(ops::Registry& registry, const Resources& resources) {
  registry.get("causal_conv1d")
      .set_kernel(std::string(kDeviceName), {.run = run_composed<compose_convolution>,
                                             .plan = plan_convolution,
                                             .max_workspace = measure_composed<compose_convolution>,
                                             .resources = resources});
}

}  // namespace reprise::kernels::ascend
