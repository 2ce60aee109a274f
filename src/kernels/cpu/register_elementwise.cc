#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "kernels/cpu/rope.h"
#include "ops/in_place.h"

// Operators on each element or row by itself: add, mul, divide, silu, reciprocal, swiglu, rms_norm, rope, and those in
// place.

namespace reprise::kernels::cpu {
namespace {

/// Kernels of one or two inputs.
void launch(const ops::OpCall& call, const NamedKernels<2>& kernels) {
  const bool binary = call.inputs.size() > 1;
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[binary ? 1 : 0];
  const Tensor& y = call.outputs[0];
  const RowsView view = view_as_rows(call, {&a, &b, &y});
  const ElementwiseArguments arguments{.a = a.data(),
                                       .b = binary ? b.data() : nullptr,
                                       .y = y.data(),
                                       .rows = view.rows,
                                       .columns = view.columns,
                                       .a_row_stride = view.row_strides[0],
                                       .b_row_stride = binary ? view.row_strides[1] : 0,
                                       .y_row_stride = view.row_strides[2]};
  stream_of(call).launch(kernels[index_of(a)], elementwise_tiles(view.rows, view.columns), arguments);
}

template <InstructionSet kSet>
void run_add(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("add", kSet, elementwise_kernels(kSet).add, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_mul(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("mul", kSet, elementwise_kernels(kSet).mul, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_divide(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("divide", kSet, elementwise_kernels(kSet).divide, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_swiglu(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("swiglu", kSet, elementwise_kernels(kSet).silu_mul, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_silu(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("silu", kSet, elementwise_kernels(kSet).silu, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_reciprocal(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("reciprocal", kSet, elementwise_kernels(kSet).reciprocal, kElementNames);
  launch(call, kernels);
}

template <InstructionSet kSet>
void run_rms_norm(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("rms_norm", kSet, norm_kernels(kSet).rms_norm, kElementNames);
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  const HeadsView view = view_as_heads(call, x);
  const bool in_place = y.data() == x.data();
  const RmsNormArguments arguments{.x = x.data(),
                                   .weight = float_vector(call, 1),
                                   .y = y.data(),
                                   .tokens = view.tokens,
                                   .heads = view.heads,
                                   .width = view.width,
                                   .x_token_stride = view.token_stride,
                                   .x_head_stride = view.head_stride,
                                   .y_token_stride = in_place ? view.token_stride : view.heads * view.width,
                                   .y_head_stride = in_place ? view.head_stride : view.width,
                                   .epsilon = static_cast<float>(call.float_attribute(0)),
                                   .bias = call.inputs.size() > 2 ? call.inputs[2].data_as<float>() : nullptr};
  stream_of(call).launch(kernels[index_of(x)], rms_norm_tiles(view.tokens, view.heads), arguments);
}

template <InstructionSet kSet>
void run_rope(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("rope", kSet, rope_kernels(kSet).rope, kElementNames);
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  const Tensor& table = call.inputs[2];
  const RopeArguments arguments{.x = x.data(),
                                .table = table.data_as<float>(),
                                .positions = call.inputs[1].data_as<int32_t>(),
                                .y = y.data(),
                                .tokens = x.size(0),
                                .heads = x.size(1),
                                .head_dim = x.size(2),
                                .max_position = table.size(0),
                                .x_token_stride = x.stride(0),
                                .x_head_stride = x.stride(1),
                                .y_token_stride = y.stride(0),
                                .y_head_stride = y.stride(1)};
  stream_of(call).launch(kernels[index_of(x)], rope_tiles(arguments.tokens, arguments.heads), arguments);
}

}  // namespace

void register_elementwise(ops::Registry& registry, InstructionSet set) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("add").set_kernel(device, {.run = run_add<kSet>});
    registry.get("mul").set_kernel(device, {.run = run_mul<kSet>});
    registry.get("divide").set_kernel(device, {.run = run_divide<kSet>});
    registry.get("silu").set_kernel(device, {.run = run_silu<kSet>});
    registry.get("reciprocal").set_kernel(device, {.run = run_reciprocal<kSet>});
    registry.get("swiglu").set_kernel(device, {.run = run_swiglu<kSet>});
    registry.get("rms_norm").set_kernel(device, {.run = run_rms_norm<kSet>});
    registry.get("rms_norm_bias").set_kernel(device, {.run = run_rms_norm<kSet>});
    registry.get("rope").set_kernel(device, {.run = run_rope<kSet>});
    registry.get("add_").set_kernel(device, {.run = ops::in_place<run_add<kSet>>});
    registry.get("mul_").set_kernel(device, {.run = ops::in_place<run_mul<kSet>>});
    registry.get("divide_").set_kernel(device, {.run = ops::in_place<run_divide<kSet>>});
    registry.get("silu_").set_kernel(device, {.run = ops::in_place<run_silu<kSet>>});
    registry.get("reciprocal_").set_kernel(device, {.run = ops::in_place<run_reciprocal<kSet>>});
    registry.get("rms_norm_").set_kernel(device, {.run = ops::in_place<run_rms_norm<kSet>>});
    registry.get("rope_").set_kernel(device, {.run = ops::in_place<run_rope<kSet>>});
  });
}

}  // namespace reprise::kernels::cpu
