#include "base/error.h"
#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/moe.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"

// Mixtures of experts: moe_gating_top_k, moe_place, moe_route, grouped_linear, int8_grouped_linear, moe_combine,
// moe_count_rows.

namespace reprise::kernels::cpu {
namespace {

template <InstructionSet kSet>
void run_gating(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("moe_gating_top_k", kSet, moe_kernels(kSet).gating, kElementNames);
  const Tensor& logits = call.inputs[0];
  const Tensor& count = call.inputs[1];
  const GatingArguments arguments{.logits = logits.data(),
                                  .token_count = count.defined() ? count.data_as<int32_t>() : nullptr,
                                  .weights = call.outputs[0].data_as<float>(),
                                  .experts = call.outputs[1].data_as<int32_t>(),
                                  .tokens = logits.size(0),
                                  .expert_count = logits.size(1),
                                  .top_k = call.int_attribute(0),
                                  .logits_row_stride = logits.stride(0),
                                  .renormalize = call.bool_attribute(1) ? 1 : 0};
  stream_of(call).launch(kernels[index_of(logits)], gating_tiles(arguments.tokens), arguments);
}

constexpr device::cpu::Kernel kPlace = {"moe_place", place};

void run_place(const ops::OpCall& call) {
  const Tensor& experts = call.inputs[0];
  const Tensor& map = call.inputs[1];
  const Tensor& positions = call.inputs[2];
  const PlaceArguments arguments{.experts = experts.data_as<int32_t>(),
                                 .map = map.data_as<int32_t>(),
                                 .positions = positions.defined() ? positions.data_as<int32_t>() : nullptr,
                                 .places = call.outputs[0].data_as<int32_t>(),
                                 .tokens = experts.size(0),
                                 .top_k = experts.size(1),
                                 .expert_count = map.size(0),
                                 .map_columns = map.size(1)};
  stream_of(call).launch(kPlace, place_tiles(arguments.tokens), arguments);
}

constexpr device::cpu::Kernel kRoute = {"moe_route", route};

void run_route(const ops::OpCall& call) {
  const Tensor& experts = call.inputs[0];
  const RouteArguments arguments{.experts = experts.data_as<int32_t>(),
                                 .offsets = call.outputs[0].data_as<int32_t>(),
                                 .tokens = call.outputs[1].data_as<int32_t>(),
                                 .places = call.outputs[2].data_as<int32_t>(),
                                 .token_count = experts.size(0),
                                 .top_k = experts.size(1),
                                 .expert_count = call.int_attribute(0)};
  stream_of(call).launch(kRoute, route_tiles(), arguments);
}

/// Of grouped_linear and int8_grouped_linear, whose first three arguments are alike.
GroupedRows grouped_rows(const ops::OpCall& call) {
  const Tensor& y = call.outputs[0];
  return {.offsets = call.inputs[2].data_as<int32_t>(),
          .experts = call.inputs[1].size(0),
          .count = call.inputs[0].size(0),
          .y = y.data(),
          .y_element = element_of(y)};
}

template <InstructionSet kSet>
void run_grouped_linear(const ops::OpCall& call) {
  static constexpr std::string_view kWithF32[2] = {"f32.f32", "bf16.f32"};
  static constexpr std::string_view kWithBf16[2] = {"f32.bf16", "bf16.bf16"};
  static const KernelFunction(&functions)[2][2] = linear_kernels(kSet).grouped;
  static const NamedKernels<2> with_f32("grouped_linear", kSet, {functions[0][0], functions[1][0]}, kWithF32);
  static const NamedKernels<2> with_bf16("grouped_linear", kSet, {functions[0][1], functions[1][1]}, kWithBf16);

  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  require_packed_stack(call, 1);
  const GroupedLinearArguments arguments{.rows = grouped_rows(call),
                                         .x = x.data(),
                                         .weight = weight.data(),
                                         .inputs = weight.size(2),
                                         .outputs = weight.size(1),
                                         .x_row_stride = x.stride(0),
                                         .tiles = grouped_product_tiles(call, x.dtype(), weight, x.size(0))};
  const NamedKernels<2>& kernels = element_of(weight) == Element::kF32 ? with_f32 : with_bf16;
  stream_of(call).launch(kernels[index_of(x)], grouped_linear_tiles(arguments.outputs), arguments);
}

template <InstructionSet kSet>
void run_int8_grouped_linear(const ops::OpCall& call) {
  static constexpr std::string_view kVariants[1] = {"i8"};
  static constexpr std::string_view kDotVariants[1] = {"i8_vnni"};
  static const bool dot_products = has_int8_dot_products(kSet);
  static const NamedKernels<1> kernels("int8_grouped_linear", kSet, {int8_linear_kernels(kSet, dot_products).grouped},
                                       dot_products ? kDotVariants : kVariants);
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  require_packed_stack(call, 1);
  const Int8GroupedLinearArguments arguments{.rows = grouped_rows(call),
                                             .x = x.data_as<int8_t>(),
                                             .weight = weight.data(),
                                             .scale = call.inputs[3].data_as<float>(),
                                             .row_scales = call.inputs[4].data_as<float>(),
                                             .inputs = weight.size(2),
                                             .outputs = weight.size(1),
                                             .x_row_stride = x.stride(0),
                                             .tiles = grouped_product_tiles(call, x.dtype(), weight, x.size(0))};
  stream_of(call).launch(kernels[0], grouped_linear_tiles(arguments.outputs), arguments);
}

template <InstructionSet kSet>
void run_combine(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("moe_combine", kSet, moe_kernels(kSet).combine, kElementNames);
  const Tensor& y = call.inputs[0];
  const Tensor& places = call.inputs[2];
  const CombineArguments arguments{.y = y.data(),
                                   .weights = call.inputs[1].data_as<float>(),
                                   .places = places.data_as<int32_t>(),
                                   .out = call.outputs[0].data(),
                                   .tokens = places.size(0),
                                   .top_k = places.size(1),
                                   .columns = y.size(1),
                                   .y_row_stride = y.stride(0)};
  stream_of(call).launch(kernels[index_of(y)], combine_tiles(arguments.tokens, arguments.columns), arguments);
}

constexpr device::cpu::Kernel kCountRows = {"moe_count_rows", count_rows};

void run_count_rows(const ops::OpCall& call) {
  const Tensor& counts = call.inputs[1];
  const CountRowsArguments arguments{
      .offsets = call.inputs[0].data_as<int32_t>(), .counts = counts.data_as<int64_t>(), .experts = counts.size(0)};
  stream_of(call).launch(kCountRows, count_rows_tiles(), arguments);
}

}  // namespace

void register_moe(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("moe_gating_top_k").set_kernel(device, {.run = run_gating<kSet>});
    registry.get("moe_place").set_kernel(device, {.run = run_place});
    registry.get("moe_route").set_kernel(device, {.run = run_route});
    registry.get("grouped_linear").set_kernel(device, {.run = run_grouped_linear<kSet>, .tuning = tuning});
    registry.get("int8_grouped_linear").set_kernel(device, {.run = run_int8_grouped_linear<kSet>, .tuning = tuning});
    registry.get("moe_count_rows").set_kernel(device, {.run = run_count_rows});
    registry.get("moe_combine").set_kernel(device, {.run = run_combine<kSet>});
  });
}

}  // namespace reprise::kernels::cpu
