#include "base/error.h"
#include "kernels/cpu/batch_matmul.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fused_norm.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "kernels/cpu/split_qkv.h"

// Operators that take the place of several: add_rms_norm and its kin, swiglu, split_qkv_rms_norm_rope; and batch_matmul
// with its transposed form.

namespace reprise::kernels::cpu {
namespace {

/// What all of them share; `sum` is the output of the residual's sum.
AddRmsNormArguments add_norm_arguments(const ops::OpCall& call, const Tensor& sum) {
  const Tensor& x = call.inputs[0];
  const Tensor& residual = call.inputs[1];
  const RowsView view = view_as_rows(call, {&x, &residual}, true);
  AddRmsNormArguments arguments{};
  arguments.x = x.data();
  arguments.residual = residual.data();
  arguments.weight = float_vector(call, 2);
  arguments.sum = sum.data();
  arguments.rows = view.rows;
  arguments.columns = view.columns;
  arguments.x_row_stride = view.row_strides[0];
  arguments.residual_row_stride = view.row_strides[1];
  arguments.epsilon = static_cast<float>(call.float_attribute(0));
  return arguments;
}

void launch_norm(const ops::OpCall& call, const device::cpu::Kernel& kernel, const AddRmsNormArguments& arguments) {
  stream_of(call).launch(kernel, fused_norm_tiles(arguments.rows), arguments);
}

template <InstructionSet kSet>
void run_add_rms_norm(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("add_rms_norm", kSet, fused_norm_kernels(kSet).plain, kElementNames);
  AddRmsNormArguments arguments = add_norm_arguments(call, call.outputs[1]);
  arguments.y = call.outputs[0].data();
  if (call.inputs.size() > 3) arguments.bias = call.inputs[3].data_as<float>();
  launch_norm(call, kernels[index_of(call.inputs[0])], arguments);
}

/// With a bias, which is argument 3; what quantises comes behind it.
template <InstructionSet kSet, bool kBias>
void run_add_rms_norm_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("add_rms_norm_quantize", kSet, fused_norm_kernels(kSet).quantize, kElementNames);
  AddRmsNormArguments arguments = add_norm_arguments(call, call.outputs[1]);
  if (kBias) arguments.bias = call.inputs[3].data_as<float>();
  arguments.quantized = call.outputs[0].data_as<int8_t>();
  constexpr size_t kScale = kBias ? 4 : 3;
  arguments.scales = quantize_scales(call, kScale);
  launch_norm(call, kernels[index_of(call.inputs[0])], arguments);
}

template <InstructionSet kSet, bool kBias>
void run_add_rms_norm_dynamic_quantize(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("add_rms_norm_dynamic_quantize", kSet, fused_norm_kernels(kSet).dynamic_quantize,
                                       kElementNames);
  AddRmsNormArguments arguments = add_norm_arguments(call, call.outputs[2]);
  arguments.quantized = call.outputs[0].data_as<int8_t>();
  arguments.row_scales = call.outputs[1].data_as<float>();
  if (kBias) arguments.bias = call.inputs[3].data_as<float>();
  const Tensor& smooth_scales = call.inputs[kBias ? 4 : 3];
  if (smooth_scales.defined()) arguments.smooth_scales = smooth_scales.data_as<float>();
  launch_norm(call, kernels[index_of(call.inputs[0])], arguments);
}

template <InstructionSet kSet>
void run_add_rms_norm_cast(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("add_rms_norm_cast", kSet, fused_norm_kernels(kSet).cast, kElementNames);
  AddRmsNormArguments arguments = add_norm_arguments(call, call.outputs[2]);
  arguments.wide = call.outputs[0].data_as<float>();
  arguments.y = call.outputs[1].data();
  launch_norm(call, kernels[index_of(call.inputs[0])], arguments);
}

/// What the forms of embedding_rms_norm share; `hidden` is the output of that name.
EmbeddingRmsNormArguments embedding_norm_arguments(const ops::OpCall& call, const Tensor& hidden) {
  const Tensor& table = call.inputs[1];
  EmbeddingRmsNormArguments arguments{};
  arguments.table = table.data();
  arguments.ids = call.inputs[0].data_as<int32_t>();
  arguments.weight = float_vector(call, 2);
  if (call.inputs.size() > 3 && call.inputs[3].defined()) arguments.bias = call.inputs[3].data_as<float>();
  arguments.hidden = hidden.data();
  arguments.rows = call.inputs[0].size(0);
  arguments.columns = table.size(1);
  arguments.table_rows = table.size(0);
  arguments.table_row_stride = table.stride(0);
  arguments.epsilon = static_cast<float>(call.float_attribute(1));
  return arguments;
}

/// Kernels by the element of the table and that of the hidden state.
class EmbeddingKernels {
 public:
  EmbeddingKernels(std::string_view name, InstructionSet set, const KernelFunction (&functions)[2][2])
      : from_f32_(name, set, functions[0], kFromF32), from_bf16_(name, set, functions[1], kFromBf16) {}
  const device::cpu::Kernel& at(const Tensor& table, const Tensor& hidden) const {
    return (element_of(table) == Element::kF32 ? from_f32_ : from_bf16_)[index_of(hidden)];
  }

 private:
  static constexpr std::string_view kFromF32[2] = {"f32.f32", "f32.bf16"};
  static constexpr std::string_view kFromBf16[2] = {"bf16.f32", "bf16.bf16"};
  NamedKernels<2> from_f32_, from_bf16_;
};

template <InstructionSet kSet>
void run_embedding_rms_norm(const ops::OpCall& call) {
  static const EmbeddingKernels kernels("embedding_rms_norm", kSet, fused_norm_kernels(kSet).embedding);
  const Tensor& hidden = call.outputs[1];
  EmbeddingRmsNormArguments arguments = embedding_norm_arguments(call, hidden);
  arguments.y = call.outputs[0].data();
  stream_of(call).launch(kernels.at(call.inputs[1], hidden), fused_norm_tiles(arguments.rows), arguments);
}

template <InstructionSet kSet>
void run_embedding_rms_norm_quantize(const ops::OpCall& call) {
  static const EmbeddingKernels kernels("embedding_rms_norm_quantize", kSet,
                                        fused_norm_kernels(kSet).embedding_quantize);
  const Tensor& hidden = call.outputs[1];
  EmbeddingRmsNormArguments arguments = embedding_norm_arguments(call, hidden);
  arguments.quantized = call.outputs[0].data_as<int8_t>();
  arguments.scales = quantize_scales(call, 4);
  stream_of(call).launch(kernels.at(call.inputs[1], hidden), fused_norm_tiles(arguments.rows), arguments);
}

template <InstructionSet kSet>
void run_embedding_rms_norm_dynamic_quantize(const ops::OpCall& call) {
  static const EmbeddingKernels kernels("embedding_rms_norm_dynamic_quantize", kSet,
                                        fused_norm_kernels(kSet).embedding_dynamic_quantize);
  const Tensor& hidden = call.outputs[2];
  EmbeddingRmsNormArguments arguments = embedding_norm_arguments(call, hidden);
  arguments.quantized = call.outputs[0].data_as<int8_t>();
  arguments.row_scales = call.outputs[1].data_as<float>();
  if (call.inputs[4].defined()) arguments.smooth_scales = call.inputs[4].data_as<float>();
  stream_of(call).launch(kernels.at(call.inputs[1], hidden), fused_norm_tiles(arguments.rows), arguments);
}

SplitQkvArguments split_qkv_arguments(const ops::OpCall& call) {
  const auto floats = [&](size_t input) {
    return call.inputs[input].defined() ? call.inputs[input].data_as<float>() : nullptr;
  };
  const Tensor& table = call.inputs[6];
  return {.qkv = call.inputs[0].data(),
          .weight = {float_vector(call, 1), float_vector(call, 2)},
          .bias = {floats(3), floats(4)},
          .table = floats(6),
          .positions = call.inputs[5].data_as<int32_t>(),
          .q = call.outputs[0].data(),
          .k = call.outputs.size() > 1 ? call.outputs[1].data() : nullptr,
          .tokens = call.inputs[0].size(0),
          .heads = call.int_attribute(0),
          .kv_heads = call.int_attribute(1),
          .head_dim = table.size(1),
          .max_position = table.size(0),
          .epsilon = static_cast<float>(call.float_attribute(2))};
}

template <InstructionSet kSet>
void run_split_qkv(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("split_qkv_rms_norm_rope", kSet, split_qkv_kernels(kSet).split_qkv_rms_norm_rope,
                                       kElementNames);
  const SplitQkvArguments arguments = split_qkv_arguments(call);
  stream_of(call).launch(kernels[index_of(call.inputs[0])],
                         split_qkv_tiles(arguments.tokens, arguments.heads, arguments.kv_heads), arguments);
}

template <InstructionSet kSet>
void run_split_qkv_store(const ops::OpCall& call) {
  static const NamedKernels<2> kernels("split_qkv_rms_norm_rope_store", kSet,
                                       split_qkv_kernels(kSet).split_qkv_rms_norm_rope_store, kElementNames);
  static constexpr std::string_view kInt8Names[2] = {"f32.i8", "bf16.i8"};
  static const NamedKernels<2> int8_kernels("split_qkv_rms_norm_rope_store", kSet,
                                            split_qkv_kernels(kSet).split_qkv_rms_norm_rope_store_int8, kInt8Names);
  const SplitQkvArguments split = split_qkv_arguments(call);
  const Tensor& k_cache = call.inputs[8];
  const bool is_int8 = k_cache.dtype() == DType::kI8;
  if (is_int8 && split.head_dim > kMaxStoredHeadDim) {
    throw Error(ErrorCode::kUnsupported, "{}: a head dimension of {} is not supported with an int8 cache, only 1 to {}",
                call.op.name(), split.head_dim, kMaxStoredHeadDim);
  }
  const SplitQkvStoreArguments arguments{.split = split,
                                         .slots = call.inputs[7].data_as<int32_t>(),
                                         .k_cache = k_cache.data(),
                                         .v_cache = call.inputs[9].data(),
                                         .k_scales = is_int8 ? call.inputs[10].data_as<float>() : nullptr,
                                         .v_scales = is_int8 ? call.inputs[11].data_as<float>() : nullptr,
                                         .slot_count = k_cache.size(0) * k_cache.size(1)};
  stream_of(call).launch((is_int8 ? int8_kernels : kernels)[index_of(call.inputs[0])],
                         split_qkv_store_tiles(split.tokens, split.heads, split.kv_heads), arguments);
}

template <InstructionSet kSet>
void launch_batch_matmul(const ops::OpCall& call, bool a_transposed, bool y_transposed) {
  static const NamedKernels<2> kernels("batch_matmul", kSet, batch_matmul_kernels(kSet).batch_matmul, kElementNames);
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& y = call.outputs[0];
  const size_t a_batch = a_transposed ? 1 : 0;
  const size_t y_batch = y_transposed ? 1 : 0;
  const BatchMatmulArguments arguments{.a = a.data(),
                                       .b = b.data(),
                                       .y = y.data(),
                                       .batches = b.size(0),
                                       .rows = a.size(1 - a_batch),
                                       .inner = b.size(1),
                                       .columns = b.size(2),
                                       .a_batch_stride = a.stride(a_batch),
                                       .a_row_stride = a.stride(1 - a_batch),
                                       .b_batch_stride = b.stride(0),
                                       .b_row_stride = b.stride(1),
                                       .y_batch_stride = y.stride(y_batch),
                                       .y_row_stride = y.stride(1 - y_batch)};
  stream_of(call).launch(kernels[index_of(a)], batch_matmul_tiles(arguments.batches, arguments.rows, arguments.columns),
                         arguments);
}

template <InstructionSet kSet>
void run_batch_matmul(const ops::OpCall& call) {
  launch_batch_matmul<kSet>(call, false, false);
}

template <InstructionSet kSet>
void run_transpose_batch_matmul(const ops::OpCall& call) {
  launch_batch_matmul<kSet>(call, call.bool_attribute(0), true);
}

}  // namespace

void register_fused(ops::Registry& registry, InstructionSet set) {
  const std::string device(kDeviceName);
  with_instruction_set(set, [&](auto constant) {
    constexpr InstructionSet kSet = decltype(constant)::value;
    registry.get("add_rms_norm").set_kernel(device, {.run = run_add_rms_norm<kSet>});
    registry.get("add_rms_norm_bias").set_kernel(device, {.run = run_add_rms_norm<kSet>});
    registry.get("add_rms_norm_quantize").set_kernel(device, {.run = run_add_rms_norm_quantize<kSet, false>});
    registry.get("add_rms_norm_bias_quantize").set_kernel(device, {.run = run_add_rms_norm_quantize<kSet, true>});
    registry.get("add_rms_norm_dynamic_quantize")
        .set_kernel(device, {.run = run_add_rms_norm_dynamic_quantize<kSet, false>});
    registry.get("add_rms_norm_bias_dynamic_quantize")
        .set_kernel(device, {.run = run_add_rms_norm_dynamic_quantize<kSet, true>});
    registry.get("add_rms_norm_cast").set_kernel(device, {.run = run_add_rms_norm_cast<kSet>});
    registry.get("embedding_rms_norm").set_kernel(device, {.run = run_embedding_rms_norm<kSet>});
    registry.get("embedding_rms_norm_quantize").set_kernel(device, {.run = run_embedding_rms_norm_quantize<kSet>});
    registry.get("embedding_rms_norm_dynamic_quantize")
        .set_kernel(device, {.run = run_embedding_rms_norm_dynamic_quantize<kSet>});
    registry.get("split_qkv_rms_norm_rope").set_kernel(device, {.run = run_split_qkv<kSet>});
    registry.get("split_qkv_rms_norm_rope_store").set_kernel(device, {.run = run_split_qkv_store<kSet>});
    registry.get("batch_matmul").set_kernel(device, {.run = run_batch_matmul<kSet>});
    registry.get("transpose_batch_matmul").set_kernel(device, {.run = run_transpose_batch_matmul<kSet>});
  });
}

}  // namespace reprise::kernels::cpu
