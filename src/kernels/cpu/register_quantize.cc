#include "kernels/cpu/quantize.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"

// quantize and dynamic_quantize, also of swiglu.

namespace reprise::kernels::cpu {
namespace {

/// `gate_and_up`: the first two inputs are those of swiglu; `scale` is the place of the scale, the offset follows it.
void launch_quantize(const ops::OpCall& call, const NamedKernels<2>& kernels, bool gate_and_up, size_t scale) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[gate_and_up ? 1 : 0];
  const RowsView view = view_as_rows(call, {&a, &b}, true);
  const QuantizeArguments arguments{.a = a.data(),
                                    .b = b.data(),
                                    .y = call.outputs[0].data_as<int8_t>(),
                                    .scales = quantize_scales(call, scale),
                                    .rows = view.rows,
                                    .columns = view.columns,
                                    .a_row_stride = view.row_strides[0],
                                    .b_row_stride = view.row_strides[1]};
  stream_of(call).launch(kernels[index_of(a)], quantize_tiles(view.rows), arguments);
}

void launch_dynamic(const ops::OpCall& call, const NamedKernels<2>& kernels, bool gate_and_up, size_t smooth_scales) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[gate_and_up ? 1 : 0];
  const Tensor& smooth = call.inputs[smooth_scales];
  const RowsView view = view_as_rows(call, {&a, &b}, true);
  const DynamicQuantizeArguments arguments{.a = a.data(),
                                           .b = b.data(),
                                           .smooth_scales = smooth.defined() ? smooth.data_as<float>() : nullptr,
                                           .y = call.outputs[0].data_as<int8_t>(),
                                           .scales = call.outputs[1].data_as<float>(),
                                           .rows = view.rows,
                                           .columns = view.columns,
                                           .a_row_stride = view.row_strides[0],
                                           .b_row_stride = view.row_strides[1]};
  stream_of(call).launch(kernels[index_of(a)], quantize_tiles(view.rows), arguments);
}

template <InstructionSet kSet>
void run_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("quantize", kSet, quantize_kernels(kSet).quantize, kElementNames);
  launch_quantize(call, kernels, false, 1);
}

template <InstructionSet kSet>
void run_swiglu_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("swiglu_quantize", kSet, quantize_kernels(kSet).swiglu_quantize, kElementNames);
  launch_quantize(call, kernels, true, 2);
}

template <InstructionSet kSet>
void run_dynamic_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("dynamic_quantize", kSet, quantize_kernels(kSet).dynamic_quantize,
                                       kElementNames);
  launch_dynamic(call, kernels, false, 1);
}

template <InstructionSet kSet>
void run_swiglu_dynamic_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("swiglu_dynamic_quantize", kSet, quantize_kernels(kSet).swiglu_dynamic_quantize,
                                       kElementNames);
  launch_dynamic(call, kernels, true, 2);
}

}  // namespace

void register_quantize(ops::Registry& registry, InstructionSet set) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("quantize").set_kernel(device, {.run = run_quantize<kSet>});
    registry.get("swiglu_quantize").set_kernel(device, {.run = run_swiglu_quantize<kSet>});
    registry.get("dynamic_quantize").set_kernel(device, {.run = run_dynamic_quantize<kSet>});
    registry.get("swiglu_dynamic_quantize").set_kernel(device, {.run = run_swiglu_dynamic_quantize<kSet>});
  });
}

}  // namespace reprise::kernels::cpu
