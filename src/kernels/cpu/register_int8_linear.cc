#include "base/error.h"
#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"

// int8_linear. Its weights are packed by pack_linear_weight, see register_linear.cc.

namespace reprise::kernels::cpu {
namespace {

template <InstructionSet kSet>
void run_int8_linear(const ops::OpCall& call) {
  static constexpr std::string_view kVariants[1] = {"i8"};
  static constexpr std::string_view kDotVariants[1] = {"i8_vnni"};
  static const bool dot_products = has_int8_dot_products(kSet);
  static const NamedKernels<1> kernels("int8_linear", kSet, {int8_linear_kernels(kSet, dot_products).linear},
                                       dot_products ? kDotVariants : kVariants);
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  const Tensor& row_scales = call.inputs[3];
  const Tensor& quant_bias = call.inputs[4];
  const Tensor& bias = call.inputs[5];
  const Tensor& y = call.outputs[0];
  require_packed(call, 1);
  const RowsView view = view_as_rows(call, {&x}, true);
  const Int8LinearArguments arguments{.x = x.data_as<int8_t>(),
                                      .weight = weight.data(),
                                      .scale = call.inputs[2].data_as<float>(),
                                      .row_scales = row_scales.defined() ? row_scales.data_as<float>() : nullptr,
                                      .quant_bias = quant_bias.defined() ? quant_bias.data_as<int32_t>() : nullptr,
                                      .bias = bias.defined() ? bias.data_as<float>() : nullptr,
                                      .y = y.data(),
                                      .rows = view.rows,
                                      .inputs = weight.size(1),
                                      .outputs = weight.size(0),
                                      .x_row_stride = view.row_strides[0],
                                      .y_row_stride = weight.size(0),
                                      .y_element = element_of(y),
                                      .tiles = product_tiles(call, x, weight, view.rows)};
  stream_of(call).launch(kernels[0], linear_tiles(arguments.rows, arguments.outputs), arguments);
}

}  // namespace

void register_int8_linear(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning) {
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("int8_linear").set_kernel(std::string(kDeviceName), {.run = run_int8_linear<kSet>, .tuning = tuning});
  });
}

}  // namespace reprise::kernels::cpu
