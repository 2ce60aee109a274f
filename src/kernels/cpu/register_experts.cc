#include "kernels/cpu/experts.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "kernels/cpu/rows.h"

// moe_experts: four launches.

namespace reprise::kernels::cpu {
namespace {

/// What lies in the workspace, each at a multiple of 64 bytes.
struct Workspace {
  int64_t tokens, places, rows, gate_up, hidden, y;  ///< offsets in bytes
  int64_t bytes;
};

Workspace lay_out(const ops::OpCall& call) {
  const int64_t rows = call.inputs[2].shape().elements();
  const int64_t width = call.inputs[0].size(1);
  const int64_t intermediate = call.inputs[4].size(2);
  const auto element = static_cast<int64_t>(size_of(element_of(call.inputs[0])));
  int64_t end = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = end;
    end += (bytes + 63) / 64 * 64;
    return begin;
  };
  Workspace result{};
  result.tokens = take(rows * 4);
  result.places = take(rows * 4);
  result.rows = take(rows * width * element);
  result.gate_up = take(rows * 2 * intermediate * element);
  result.hidden = take(rows * intermediate * element);
  result.y = take(rows * width * element);
  result.bytes = end;
  return result;
}

size_t max_workspace(const ops::OpCall& call) { return static_cast<size_t>(lay_out(call).bytes); }

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
  const Tensor& experts = call.inputs[2];
  const Tensor& gate_up = call.inputs[3];
  require_packed_stack(call, 3);
  require_packed_stack(call, 4);
  const Workspace at = lay_out(call);
  std::byte* memory = call.workspace.defined() ? call.workspace.data_as<std::byte>() : nullptr;
  auto* offsets = call.outputs[1].data_as<int32_t>();
  auto* tokens = reinterpret_cast<int32_t*>(memory + at.tokens);
  auto* places = reinterpret_cast<int32_t*>(memory + at.places);
  const int64_t rows = experts.shape().elements();
  const int64_t width = x.size(1);
  const int64_t intermediate = call.inputs[4].size(2);
  const size_t variant = 2 * index_of(x) + index_of(gate_up);
  device::cpu::CpuStream& stream = stream_of(call);
  stream.launch(kRoute, route_tiles(),
                RouteArguments{.experts = experts.data_as<int32_t>(),
                               .offsets = offsets,
                               .tokens = tokens,
                               .places = places,
                               .token_count = experts.size(0),
                               .top_k = experts.size(1),
                               .expert_count = gate_up.size(0)});
  stream.launch(gather[index_of(x)], gather_rows_tiles(rows),
                GatherRowsArguments{.table = x.data(),
                                    .ids = tokens,
                                    .y = memory + at.rows,
                                    .rows = rows,
                                    .columns = width,
                                    .table_rows = x.size(0),
                                    .table_row_stride = x.stride(0),
                                    .y_row_stride = width});
  const auto rows_into = [&](int64_t offset) {
    return GroupedRows{.offsets = offsets,
                       .experts = gate_up.size(0),
                       .count = rows,
                       .y = memory + offset,
                       .y_element = element_of(x)};
  };
  stream.launch(up[variant], experts_up_tiles(intermediate),
                ExpertsUpArguments{.product = {.rows = rows_into(at.gate_up),
                                               .x = memory + at.rows,
                                               .weight = gate_up.data(),
                                               .inputs = width,
                                               .outputs = 2 * intermediate,
                                               .x_row_stride = width},
                                   .hidden = memory + at.hidden,
                                   .columns = intermediate});
  stream.launch(down[variant], experts_down_tiles(width),
                ExpertsDownArguments{.product = {.rows = rows_into(at.y),
                                                 .x = memory + at.hidden,
                                                 .weight = call.inputs[4].data(),
                                                 .inputs = intermediate,
                                                 .outputs = width,
                                                 .x_row_stride = intermediate},
                                     .sum = {.y = memory + at.y,
                                             .weights = call.inputs[1].data_as<float>(),
                                             .places = places,
                                             .out = call.outputs[0].data(),
                                             .tokens = experts.size(0),
                                             .top_k = experts.size(1),
                                             .columns = width,
                                             .y_row_stride = width}});
}

}  // namespace

void register_experts(ops::Registry& registry, InstructionSet set) {
  with_instruction_set(set, [&](auto constant) {
    registry.get("moe_experts")
        .set_kernel(std::string(kDeviceName),
                    {.run = run_moe_experts<decltype(constant)::value>, .max_workspace = max_workspace, .launches = 4});
  });
}

}  // namespace reprise::kernels::cpu
