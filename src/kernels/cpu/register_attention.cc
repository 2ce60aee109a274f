#include "base/error.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/attention.h"

// paged_attention: two launches, blocks of keys and then their merge. The tail of both is the plan.

namespace reprise::kernels::cpu {
namespace {

void require_head_dim(const ops::OpCall& call) {
  const int64_t head_dim = call.inputs[0].size(2);
  if (head_dim < 1 || head_dim > kMaxAttentionHeadDim) {
    throw Error(ErrorCode::kUnsupported, "paged_attention: a head dimension of {} is not supported, only 1 to {}",
                head_dim, kMaxAttentionHeadDim);
  }
}

void plan(const ops::OpCall& call, ops::Tiling& tiling) {
  require_head_dim(call);
  ops::check_attention_lists(call);
  const Tensor& q = call.inputs[0];
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  tiling.values.resize(static_cast<size_t>(attention_tail_size(static_cast<int64_t>(queries.size()))));
  const AttentionPlan result =
      plan_attention(queries, keys, q.size(0), q.size(1), call.inputs[1].size(2), q.size(2), tiling.values);
  tiling.values.resize(static_cast<size_t>(result.tail_size));
  tiling.tiles = result.partial_tiles;
}

size_t max_workspace(const ops::OpCall& call) {
  const Tensor& q = call.inputs[0];
  const Tensor& tables = call.inputs[3];
  return static_cast<size_t>(max_attention_workspace_bytes(q.size(0), tables.size(0), q.size(1), q.size(2),
                                                           tables.size(1) * call.inputs[1].size(1)));
}

template <InstructionSet kSet>
void run(const ops::OpCall& call) {
  static constexpr std::string_view kInt8Names[2] = {"f32.i8", "bf16.i8"};
  static const NamedKernels<2> partials("paged_attention", kSet, attention_kernels(kSet).partial, kElementNames);
  static const NamedKernels<2> int8_partials(
      "paged_attention", kSet, {attention_kernels(kSet).partial_int8, attention_kernels(kSet).partial_int8},
      kInt8Names);
  static const NamedKernels<2> merges("paged_attention_merge", kSet, attention_kernels(kSet).merge, kElementNames);
  const Tensor& q = call.inputs[0];
  const Tensor& cache = call.inputs[1];
  const bool is_int8 = cache.dtype() == DType::kI8;
  const AttentionArguments arguments{.query = q.data(),
                                     .query_element = element_of(q),
                                     .key_cache = cache.data(),
                                     .value_cache = call.inputs[2].data(),
                                     .key_scales = is_int8 ? call.inputs[4].data_as<float>() : nullptr,
                                     .value_scales = is_int8 ? call.inputs[5].data_as<float>() : nullptr,
                                     .block_table = call.inputs[3].data_as<int32_t>(),
                                     .y = call.outputs[0].data(),
                                     .workspace = call.workspace.data_as<float>(),
                                     .tokens = q.size(0),
                                     .query_heads = q.size(1),
                                     .kv_heads = cache.size(2),
                                     .head_dim = q.size(2),
                                     .pages = cache.size(0),
                                     .page_size = cache.size(1),
                                     .block_table_stride = call.inputs[3].size(1),
                                     .query_row_stride = token_stride(call, 0),
                                     .y_row_stride = q.size(1) * q.size(2),
                                     .scale = static_cast<float>(call.float_attribute(0))};
  device::cpu::CpuStream& stream = stream_of(call);
  stream.launch((is_int8 ? int8_partials : partials)[index_of(q)], call.tiling->tiles, arguments, call.tiling->values);
  stream.launch(merges[index_of(q)], arguments.tokens * arguments.query_heads, arguments, call.tiling->values);
}

}  // namespace

void register_attention(ops::Registry& registry, InstructionSet set) {
  with_instruction_set(set, [&](auto constant) {
    registry.get("paged_attention")
        .set_kernel(
            std::string(kDeviceName),
            {.run = run<decltype(constant)::value>, .plan = plan, .max_workspace = max_workspace, .launches = 2});
  });
}

}  // namespace reprise::kernels::cpu
