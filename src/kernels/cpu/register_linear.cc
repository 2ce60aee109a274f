#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/pack_weight.h"

// linear, and pack_linear_weight for it and for int8_linear.

namespace reprise::kernels::cpu {
namespace {

template <InstructionSet kSet>
void run_linear(const ops::OpCall& call) {
  static constexpr std::string_view kWithF32[2] = {"f32.f32", "bf16.f32"};
  static constexpr std::string_view kWithBf16[2] = {"f32.bf16", "bf16.bf16"};
  static const KernelFunction(&functions)[2][2] = linear_kernels(kSet).linear;
  static const NamedKernels<2> with_f32("linear", kSet, {functions[0][0], functions[1][0]}, kWithF32);
  static const NamedKernels<2> with_bf16("linear", kSet, {functions[0][1], functions[1][1]}, kWithBf16);

  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  const Tensor& bias = call.inputs[2];
  const Tensor& y = call.outputs[0];
  require_packed(call, 1);
  const RowsView view = view_as_rows(call, {&x}, true);
  const LinearArguments arguments{.x = x.data(),
                                  .weight = weight.data(),
                                  .bias = bias.defined() ? bias.data_as<float>() : nullptr,
                                  .y = y.data(),
                                  .rows = view.rows,
                                  .inputs = weight.size(1),
                                  .outputs = weight.size(0),
                                  .x_row_stride = view.row_strides[0],
                                  .y_row_stride = weight.size(0),
                                  .y_element = element_of(y),
                                  .tiles = product_tiles(call, x, weight, view.rows)};
  const NamedKernels<2>& kernels = element_of(weight) == Element::kF32 ? with_f32 : with_bf16;
  stream_of(call).launch(kernels[index_of(x)], linear_tiles(arguments.rows, arguments.outputs), arguments);
}

size_t packed_storage(const ops::OpCall& call, size_t /*output*/, TensorMeta& meta) {
  const Tensor& weight = call.inputs[0];
  const Format format = packed_format(weight);
  ops::check_wanted_format(call, format);
  meta.format = format;
  if (weight.dtype() == DType::kI8) return static_cast<size_t>(int8_packed_bytes(weight.size(0), weight.size(1)));
  return static_cast<size_t>(packed_bytes(element_of(weight), weight.size(0), weight.size(1)));
}

template <InstructionSet kSet>
void run_pack(const ops::OpCall& call) {
  static const KernelFunction(&functions)[2][2] = linear_kernels(kSet).pack;
  static constexpr std::string_view kVariants[3] = {"f32", "bf16", "i8"};
  static const NamedKernels<3> kernels(
      "pack_linear_weight", kSet, {functions[0][0], functions[1][1], int8_linear_kernels(kSet, false).pack}, kVariants);
  const Tensor& weight = call.inputs[0];
  const PackLinearArguments arguments{.weight = weight.data(),
                                      .packed = call.outputs[0].data(),
                                      .outputs = weight.size(0),
                                      .inputs = weight.size(1),
                                      .row_stride = weight.stride(0)};
  const size_t variant = weight.dtype() == DType::kI8 ? 2 : index_of(weight);
  stream_of(call).launch(kernels[variant], pack_linear_tiles(arguments.outputs), arguments);
}

}  // namespace

void register_linear(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("linear").set_kernel(device, {.run = run_linear<kSet>, .tuning = tuning});
    registry.get("pack_linear_weight").set_kernel(device, {.run = run_pack<kSet>, .output_storage = packed_storage});
  });
}

}  // namespace reprise::kernels::cpu
