#include "kernels/cpu/experts.h"
#include "kernels/cpu/int8_linear.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "kernels/cpu/rows.h"

// moe_experts: four launches. int8_moe_experts: five.

namespace reprise::kernels::cpu {
namespace {

/// Cuts a workspace into parts, each at a multiple of 64 bytes.
class Layout {
 public:
  /// The offset of the next part.
  int64_t take(int64_t bytes) {
    const int64_t begin = end_;
    end_ += (bytes + 63) / 64 * 64;
    return begin;
  }
  int64_t bytes() const { return end_; }

 private:
  int64_t end_ = 0;
};

/// What lies in the workspace: offsets in bytes.
struct Workspace {
  int64_t tokens, places, rows, gate_up, hidden, y;
  int64_t bytes;
};

Workspace lay_out(const ops::OpCall& call) {
  const int64_t rows = call.inputs[2].shape().elements();
  const int64_t width = call.inputs[0].size(1);
  const int64_t intermediate = call.inputs[4].size(2);
  const auto element = static_cast<int64_t>(size_of(element_of(call.inputs[0])));
  Layout layout;
  Workspace result{};
  result.tokens = layout.take(rows * 4);
  result.places = layout.take(rows * 4);
  result.rows = layout.take(rows * width * element);
  result.gate_up = layout.take(rows * 2 * intermediate * element);
  result.hidden = layout.take(rows * intermediate * element);
  result.y = layout.take(rows * width * element);
  result.bytes = layout.bytes();
  return result;
}

size_t max_workspace(const ops::OpCall& call) { return static_cast<size_t>(lay_out(call).bytes); }

/// Of both operators: where the rows of the choice go.
RouteArguments route_arguments(const ops::OpCall& call, int32_t* tokens, int32_t* places) {
  const Tensor& experts = call.inputs[2];
  return {.experts = experts.data_as<int32_t>(),
          .offsets = call.outputs[1].data_as<int32_t>(),
          .tokens = tokens,
          .places = places,
          .token_count = experts.size(0),
          .top_k = experts.size(1),
          .expert_count = call.inputs[3].size(0)};
}

/// Rows of the choice, grouped by expert.
GroupedRows rows_into(const ops::OpCall& call, std::byte* y) {
  return {.offsets = call.outputs[1].data_as<int32_t>(),
          .experts = call.inputs[3].size(0),
          .count = call.inputs[2].shape().elements(),
          .y = y,
          .y_element = element_of(call.inputs[0])};
}

/// The sum of each token's rows y.
CombineArguments combine_arguments(const ops::OpCall& call, const std::byte* y, const int32_t* places) {
  const Tensor& experts = call.inputs[2];
  const int64_t width = call.inputs[0].size(1);
  return {.y = y,
          .weights = call.inputs[1].data_as<float>(),
          .places = places,
          .out = call.outputs[0].data(),
          .tokens = experts.size(0),
          .top_k = experts.size(1),
          .columns = width,
          .y_row_stride = width};
}

template <InstructionSet kSet>
void run_moe_experts(const ops::OpCall& call) {
  static constexpr device::cpu::Kernel kRoute = {"moe_experts.route", route};
  static constexpr std::string_view kVariants[4] = {"f32.f32", "f32.bf16", "bf16.f32", "bf16.bf16"};
  static const LinearKernels& linear = linear_kernels(kSet);
  static const NamedKernels<2> gather("moe_experts.gather", kSet,
                                      {row_kernels(kSet).gather_rows[0][0], row_kernels(kSet).gather_rows[1][1]},
                                      kElementNames);
  static const NamedKernels<4> up(
      "moe_experts.up", kSet,
      {linear.experts_up[0][0], linear.experts_up[0][1], linear.experts_up[1][0], linear.experts_up[1][1]}, kVariants);
  static const NamedKernels<4> down(
      "moe_experts.down", kSet,
      {linear.experts_down[0][0], linear.experts_down[0][1], linear.experts_down[1][0], linear.experts_down[1][1]},
      kVariants);
  const Tensor& x = call.inputs[0];
  const Tensor& gate_up = call.inputs[3];
  const Tensor& down_weight = call.inputs[4];
  require_packed_stack(call, 3);
  require_packed_stack(call, 4);
  const Workspace at = lay_out(call);
  std::byte* memory = call.workspace.defined() ? call.workspace.data_as<std::byte>() : nullptr;
  auto* tokens = reinterpret_cast<int32_t*>(memory + at.tokens);
  auto* places = reinterpret_cast<int32_t*>(memory + at.places);
  const int64_t rows = call.inputs[2].shape().elements();
  const int64_t width = x.size(1);
  const int64_t intermediate = call.inputs[4].size(2);
  const size_t variant = 2 * index_of(x) + index_of(gate_up);
  device::cpu::CpuStream& stream = stream_of(call);
  stream.launch(kRoute, route_tiles(), route_arguments(call, tokens, places));
  stream.launch(gather[index_of(x)], gather_rows_tiles(rows),
                GatherRowsArguments{.table = x.data(),
                                    .ids = tokens,
                                    .y = memory + at.rows,
                                    .rows = rows,
                                    .columns = width,
                                    .table_rows = x.size(0),
                                    .table_row_stride = x.stride(0),
                                    .y_row_stride = width});
  stream.launch(up[variant], experts_up_tiles(intermediate),
                ExpertsUpArguments{.product = {.rows = rows_into(call, memory + at.gate_up),
                                               .x = memory + at.rows,
                                               .weight = gate_up.data(),
                                               .inputs = width,
                                               .outputs = 2 * intermediate,
                                               .x_row_stride = width,
                                               .tiles = grouped_product_tiles(call, x.dtype(), gate_up, rows)},
                                   .hidden = memory + at.hidden,
                                   .columns = intermediate});
  stream.launch(down[variant], experts_down_tiles(width),
                ExpertsDownArguments{.product = {.rows = rows_into(call, memory + at.y),
                                                 .x = memory + at.hidden,
                                                 .weight = down_weight.data(),
                                                 .inputs = intermediate,
                                                 .outputs = width,
                                                 .x_row_stride = intermediate,
                                                 .tiles = grouped_product_tiles(call, x.dtype(), down_weight, rows)},
                                     .sum = combine_arguments(call, memory + at.y, places)});
}

/// What lies in the workspace of int8_moe_experts: offsets in bytes.
struct Int8Workspace {
  int64_t tokens, places, rows, row_scales, gate_up, hidden, hidden_scales, y;
  int64_t bytes;
};

Int8Workspace lay_out_int8(const ops::OpCall& call) {
  const int64_t rows = call.inputs[2].shape().elements();
  const int64_t width = call.inputs[0].size(1);
  const int64_t intermediate = call.inputs[5].size(2);
  const auto element = static_cast<int64_t>(size_of(element_of(call.inputs[0])));
  Layout layout;
  Int8Workspace result{};
  result.tokens = layout.take(rows * 4);
  result.places = layout.take(rows * 4);
  result.rows = layout.take(rows * width);
  result.row_scales = layout.take(rows * 4);
  result.gate_up = layout.take(rows * 2 * intermediate * element);
  result.hidden = layout.take(rows * intermediate);
  result.hidden_scales = layout.take(rows * 4);
  result.y = layout.take(rows * width * element);
  result.bytes = layout.bytes();
  return result;
}

size_t max_int8_workspace(const ops::OpCall& call) { return static_cast<size_t>(lay_out_int8(call).bytes); }

/// A row's scale needs all of its columns, so products and quantisations take turns.
template <InstructionSet kSet>
void run_int8_moe_experts(const ops::OpCall& call) {
  static constexpr device::cpu::Kernel kRoute = {"int8_moe_experts.route", route};
  static constexpr std::string_view kVariants[1] = {"i8"};
  static constexpr std::string_view kDotVariants[1] = {"i8_vnni"};
  static constexpr std::string_view kDownVariants[2] = {"i8.f32", "i8.bf16"};
  static constexpr std::string_view kDotDownVariants[2] = {"i8_vnni.f32", "i8_vnni.bf16"};
  static const bool dot_products = has_int8_dot_products(kSet);
  static const Int8LinearKernels& linear = int8_linear_kernels(kSet, dot_products);
  static const QuantizeKernels& quantize = quantize_kernels(kSet);
  static const NamedKernels<2> scatter("int8_moe_experts.scatter", kSet, quantize.scatter_quantized, kElementNames);
  static const NamedKernels<1> up("int8_moe_experts.up", kSet, {linear.grouped},
                                  dot_products ? kDotVariants : kVariants);
  static const NamedKernels<2> swiglu("int8_moe_experts.swiglu", kSet, quantize.swiglu_dynamic_quantize, kElementNames);
  static const NamedKernels<2> down("int8_moe_experts.down", kSet, linear.experts_down,
                                    dot_products ? kDotDownVariants : kDownVariants);
  require_packed_stack(call, 3);
  require_packed_stack(call, 5);
  const Tensor& x = call.inputs[0];
  const Tensor& down_weight = call.inputs[5];
  const Int8Workspace at = lay_out_int8(call);
  std::byte* memory = call.workspace.defined() ? call.workspace.data_as<std::byte>() : nullptr;
  auto* places = reinterpret_cast<int32_t*>(memory + at.places);
  auto* rows = reinterpret_cast<int8_t*>(memory + at.rows);
  auto* row_scales = reinterpret_cast<float*>(memory + at.row_scales);
  auto* hidden = reinterpret_cast<int8_t*>(memory + at.hidden);
  auto* hidden_scales = reinterpret_cast<float*>(memory + at.hidden_scales);
  const int64_t count = call.inputs[2].shape().elements();
  const int64_t width = x.size(1);
  const int64_t intermediate = call.inputs[5].size(2);
  const auto half = static_cast<int64_t>(size_of(element_of(x))) * intermediate;
  device::cpu::CpuStream& stream = stream_of(call);
  stream.launch(kRoute, route_tiles(), route_arguments(call, reinterpret_cast<int32_t*>(memory + at.tokens), places));
  stream.launch(scatter[index_of(x)], quantize_tiles(x.size(0)),
                ScatterQuantizedArguments{.x = x.data(),
                                          .places = places,
                                          .y = rows,
                                          .scales = row_scales,
                                          .tokens = x.size(0),
                                          .top_k = call.inputs[2].size(1),
                                          .columns = width,
                                          .x_row_stride = x.stride(0)});
  stream.launch(up[0], grouped_linear_tiles(2 * intermediate),
                Int8GroupedLinearArguments{.rows = rows_into(call, memory + at.gate_up),
                                           .x = rows,
                                           .weight = call.inputs[3].data(),
                                           .scale = call.inputs[4].data_as<float>(),
                                           .row_scales = row_scales,
                                           .inputs = width,
                                           .outputs = 2 * intermediate,
                                           .x_row_stride = width,
                                           .tiles = grouped_product_tiles(call, DType::kI8, call.inputs[3], count)});
  stream.launch(swiglu[index_of(x)], quantize_tiles(count),
                DynamicQuantizeArguments{.a = memory + at.gate_up,
                                         .b = memory + at.gate_up + (count > 0 ? half : 0),
                                         .smooth_scales = nullptr,
                                         .y = hidden,
                                         .scales = hidden_scales,
                                         .rows = count,
                                         .columns = intermediate,
                                         .a_row_stride = 2 * intermediate,
                                         .b_row_stride = 2 * intermediate});
  stream.launch(
      down[index_of(x)], experts_down_tiles(width),
      Int8ExpertsDownArguments{.product = {.rows = rows_into(call, memory + at.y),
                                           .x = hidden,
                                           .weight = down_weight.data(),
                                           .scale = call.inputs[6].data_as<float>(),
                                           .row_scales = hidden_scales,
                                           .inputs = intermediate,
                                           .outputs = width,
                                           .x_row_stride = intermediate,
                                           .tiles = grouped_product_tiles(call, DType::kI8, down_weight, count)},
                               .sum = combine_arguments(call, memory + at.y, places)});
}

}  // namespace

void register_experts(ops::Registry& registry, InstructionSet set, std::shared_ptr<ops::ProductTuning> tuning) {
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    const std::string device(kDeviceName);
    registry.get("moe_experts")
        .set_kernel(device,
                    {.run = run_moe_experts<kSet>, .max_workspace = max_workspace, .launches = 4, .tuning = tuning});
    registry.get("int8_moe_experts")
        .set_kernel(
            device,
            {.run = run_int8_moe_experts<kSet>, .max_workspace = max_int8_workspace, .launches = 5, .tuning = tuning});
  });
}

}  // namespace reprise::kernels::cpu
