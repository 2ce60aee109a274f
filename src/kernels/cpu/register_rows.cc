#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "kernels/cpu/rows.h"

// Operators that move rows: cast, embedding, gather_rows, store_kv.

namespace reprise::kernels::cpu {
namespace {

constexpr std::string_view kFromF32[2] = {"f32.f32", "f32.bf16"};
constexpr std::string_view kFromBf16[2] = {"bf16.f32", "bf16.bf16"};

/// Kernels by the element that they read (first index) and write.
class ConvertingKernels {
 public:
  ConvertingKernels(std::string_view op, InstructionSet set, const KernelFunction (&from_f32)[2],
                    const KernelFunction (&from_bf16)[2])
      : from_f32_(op, set, from_f32, kFromF32), from_bf16_(op, set, from_bf16, kFromBf16) {}
  const device::cpu::Kernel& at(Element from, Element to) const {
    return (from == Element::kF32 ? from_f32_ : from_bf16_)[static_cast<size_t>(to)];
  }

 private:
  NamedKernels<2> from_f32_;
  NamedKernels<2> from_bf16_;
};

template <InstructionSet kSet>
const ConvertingKernels& cast_kernels() {
  static const ConvertingKernels kernels("cast", kSet, row_kernels(kSet).cast[0], row_kernels(kSet).cast[1]);
  return kernels;
}

template <InstructionSet kSet>
void run_cast(const ops::OpCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  RowsView view;
  if (x.is_contiguous() && x.rank() > 1) {
    // Merged into one row it would be one tile.
    view.rows = x.size(0);
    view.columns = view.rows == 0 ? 0 : x.shape().elements() / view.rows;
    view.row_strides = {view.columns, view.columns};
  } else {
    view = view_as_rows(call, {&x, &y});
  }
  const CastArguments arguments{.x = x.data(),
                                .y = y.data(),
                                .rows = view.rows,
                                .columns = view.columns,
                                .x_row_stride = view.row_strides[0],
                                .y_row_stride = view.row_strides[1]};
  stream_of(call).launch(cast_kernels<kSet>().at(element_of(x), element_of(y)), cast_tiles(view.rows), arguments);
}

void launch_lookup(const ops::OpCall& call, const Tensor& table, const Tensor& rows, const ConvertingKernels& kernels) {
  const Tensor& y = call.outputs[0];
  const GatherRowsArguments arguments{.table = table.data(),
                                      .ids = rows.data_as<int32_t>(),
                                      .y = y.data(),
                                      .rows = rows.size(0),
                                      .columns = table.size(1),
                                      .table_rows = table.size(0),
                                      .table_row_stride = table.stride(0),
                                      .y_row_stride = table.size(1)};
  stream_of(call).launch(kernels.at(element_of(table), element_of(y)), gather_rows_tiles(arguments.rows), arguments);
}

template <InstructionSet kSet>
void run_embedding(const ops::OpCall& call) {
  static const ConvertingKernels kernels("embedding", kSet, row_kernels(kSet).gather_rows[0],
                                         row_kernels(kSet).gather_rows[1]);
  launch_lookup(call, call.inputs[1], call.inputs[0], kernels);
}

template <InstructionSet kSet>
void run_gather_rows(const ops::OpCall& call) {
  static const ConvertingKernels kernels("gather_rows", kSet, row_kernels(kSet).gather_rows[0],
                                         row_kernels(kSet).gather_rows[1]);
  launch_lookup(call, call.inputs[0], call.inputs[1], kernels);
}

template <InstructionSet kSet>
void run_store_kv(const ops::OpCall& call) {
  static const ConvertingKernels kernels("store_kv", kSet, row_kernels(kSet).store_kv[0],
                                         row_kernels(kSet).store_kv[1]);
  static constexpr std::string_view kInt8Names[2] = {"f32.i8", "bf16.i8"};
  static const NamedKernels<2> int8_kernels("store_kv", kSet, row_kernels(kSet).store_kv_int8, kInt8Names);
  const Tensor& k = call.inputs[0];
  const Tensor& k_cache = call.inputs[3];
  const bool is_int8 = k_cache.dtype() == DType::kI8;
  const StoreKvArguments arguments{.key = k.data(),
                                   .value = call.inputs[1].data(),
                                   .slots = call.inputs[2].data_as<int32_t>(),
                                   .key_cache = k_cache.data(),
                                   .value_cache = call.inputs[4].data(),
                                   .key_scales = is_int8 ? call.inputs[5].data_as<float>() : nullptr,
                                   .value_scales = is_int8 ? call.inputs[6].data_as<float>() : nullptr,
                                   .tokens = k.size(0),
                                   .columns = k.size(1) * k.size(2),
                                   .head_dim = k.size(2),
                                   .slot_count = k_cache.size(0) * k_cache.size(1),
                                   .key_row_stride = token_stride(call, 0),
                                   .value_row_stride = token_stride(call, 1)};
  stream_of(call).launch(is_int8 ? int8_kernels[index_of(k)] : kernels.at(element_of(k), element_of(k_cache)),
                         store_kv_tiles(arguments.tokens), arguments);
}

}  // namespace

void register_rows(ops::Registry& registry, InstructionSet set) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("cast").set_kernel(device, {.run = run_cast<kSet>});
    registry.get("embedding").set_kernel(device, {.run = run_embedding<kSet>});
    registry.get("gather_rows").set_kernel(device, {.run = run_gather_rows<kSet>});
    registry.get("store_kv").set_kernel(device, {.run = run_store_kv<kSet>});
  });
}

}  // namespace reprise::kernels::cpu
