#include "ops/measure.h"

#include <algorithm>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"

namespace reprise::ops {
namespace {

void infer_read_all(const OpCall& call, std::span<TensorMeta> outputs) {
  require_rank(call, 0, 1);
  require_dtype(call, 0, DType::kI32);
  require_contiguous(call, 0);
  const Dim words = call.inputs[0].shape()[0];
  if (!words.is_constant()) fail_argument(call, 0, fmt::format("has the symbolic size {}", words.to_string()));
  outputs[0] = TensorMeta(DType::kI32, {(words.value() + kReadBlockWords - 1) / kReadBlockWords});
}

void reference_read_all(const OpCall& call) {
  const auto* words = call.inputs[0].data_as<const uint32_t>();
  auto* sums = call.outputs[0].data_as<uint32_t>();
  const int64_t count = call.inputs[0].size(0);
  for (int64_t block = 0; block * kReadBlockWords < count; ++block) {
    sums[block] = 0;
    const int64_t end = std::min(count, (block + 1) * kReadBlockWords);
    for (int64_t i = block * kReadBlockWords; i < end; ++i) sums[block] += words[i];
  }
}

void infer_multiply_adds(const OpCall& call, std::span<TensorMeta> outputs) {
  require_rank(call, 0, 1);
  require_dtype(call, 0, DType::kI32);
  require_contiguous(call, 0);
  const DType dtype = std::get<DType>(call.attributes[0]);
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kI8) {
    throw Error(ErrorCode::kInvalidArgument, "multiply_adds: no products of {} are measured", name_of(dtype))
        .remedy("use float32, bfloat16 or int8");
  }
  outputs[0] = TensorMeta(DType::kI32, call.inputs[0].shape());
}

void reference_multiply_adds(const OpCall& call) {
  const auto* factors = call.inputs[0].data_as<const int32_t>();
  auto* sums = call.outputs[0].data_as<int32_t>();
  const int64_t count = call.inputs[0].size(0);
  for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<int32_t>(factors[i] * kProductsOfFactor);
}

}  // namespace

Tensor read_all(ForwardContext& context, const Tensor& x, std::source_location where) {
  return dispatch_call(context, "read_all", {x}, {}, {}, where);
}

Tensor multiply_adds(ForwardContext& context, const Tensor& factors, DType dtype, std::source_location where) {
  return dispatch_call(context, "multiply_adds", {factors}, {}, {dtype}, where);
}

void register_measure(Registry& registry) {
  registry.add(OpDef("multiply_adds(Tensor factors, *, dtype dtype) -> Tensor sums",
                     {.rowwise = false, .rounding = Rounding::kNone}, infer_multiply_adds, reference_multiply_adds));
  registry.add(OpDef("read_all(Tensor x) -> Tensor sums", {.rowwise = false, .rounding = Rounding::kNone},
                     infer_read_all, reference_read_all));
}

}  // namespace reprise::ops
