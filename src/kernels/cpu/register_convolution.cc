#include "base/error.h"
#include "kernels/cpu/causal_conv1d.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/convolution.h"

// causal_conv1d: one launch, whose tail says where each sequence starts and whether it has a state.

namespace reprise::kernels::cpu {
namespace {

void plan_convolution(const ops::OpCall& call, ops::Tiling& tiling) {
  ops::check_convolution_lists(call);
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  const auto tail_size = static_cast<size_t>(causal_conv1d_tail_size(static_cast<int64_t>(queries.size())));
  // The rows that each sequence had before lie behind the tail for the time of planning.
  tiling.values.resize(tail_size + queries.size());
  const std::span<int32_t> values(tiling.values);
  for (size_t s = 0; s < queries.size(); ++s) values[tail_size + s] = keys[s] == 0 ? -1 : keys[s] - queries[s];
  const CausalConv1dPlan result =
      plan_causal_conv1d(queries, values.subspan(tail_size), call.inputs[0].size(1), values.first(tail_size));
  tiling.values.resize(static_cast<size_t>(result.tail_size));
  tiling.tiles = result.tiles;
}

template <InstructionSet kSet>
void run_convolution(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("causal_conv1d", kSet, causal_conv1d_kernels(kSet).causal_conv1d, kElementNames);
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  const Tensor& bias = call.inputs[2];
  const Tensor& state = call.inputs[3];
  const Tensor& slots = call.inputs[4];
  if (weight.size(1) > kMaxConvWidth) {
    throw Error(ErrorCode::kUnsupported, "causal_conv1d: argument 'weight' has {} taps, at most {} are supported",
                weight.size(1), kMaxConvWidth);
  }
  const CausalConv1dArguments arguments{.x = x.data(),
                                        .weight = weight.data_as<float>(),
                                        .bias = bias.defined() ? bias.data_as<float>() : nullptr,
                                        .state_slots = slots.data_as<int32_t>(),
                                        .state = state.data(),
                                        .y = call.outputs[0].data(),
                                        .sequences = slots.size(0),
                                        .channels = x.size(1),
                                        .width = weight.size(1),
                                        .slots = state.size(0),
                                        .x_row_stride = x.stride(0),
                                        .y_row_stride = x.size(1)};
  stream_of(call).launch(kernels[index_of(x)], call.tiling->tiles, arguments, call.tiling->values);
}

}  // namespace

void register_convolution(ops::Registry& registry, InstructionSet set) {
  with_instruction_set(set, [&](auto constant) {
    registry.get("causal_conv1d")
        .set_kernel(std::string(kDeviceName),
                    {.run = run_convolution<decltype(constant)::value>, .plan = plan_convolution});
  });
}

}  // namespace reprise::kernels::cpu
