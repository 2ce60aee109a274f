#include "ops/copies.h"

#include <cstring>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_cast(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_plain(call, 0);
  const DType dtype = call.dtype_attribute(0);
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    throw Error(ErrorCode::kInvalidArgument, "cast: attribute 'dtype' is {}, expected float32 or bfloat16",
                name_of(dtype));
  }
  outputs[0] = TensorMeta(dtype, call.inputs[0].shape());
}

void reference_cast(const OpCall& call) {
  const RowReader x(call.inputs[0]);
  RowWriter y(call.outputs[0]);
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i) y.set(row, i, x(row, i));
  }
}

void infer_copy(const OpCall& call, std::span<TensorMeta> outputs) {
  require_plain(call, 0);
  outputs[0] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void reference_copy(const OpCall& call) {
  const RowReader x(call.inputs[0]);
  const size_t bytes = size_of(call.inputs[0].dtype());
  auto* to = call.outputs[0].data_as<std::byte>();
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i, to += bytes) {
      std::memcpy(to, call.inputs[0].data_as<std::byte>() + static_cast<size_t>(x.element(row, i)) * bytes, bytes);
    }
  }
}

}  // namespace

Tensor cast(ForwardContext& context, const Tensor& x, DType dtype, std::source_location where) {
  return dispatch_call(context, "cast", {x}, {}, {dtype}, where);
}

Tensor copy(ForwardContext& context, const Tensor& x, std::source_location where) {
  return dispatch_call(context, "copy", {x}, {}, {}, where);
}

void register_copies(Registry& registry) {
  registry.add(OpDef("cast(Tensor x, *, dtype dtype) -> Tensor y", {}, infer_cast, reference_cast));
  registry.add(OpDef("copy(Tensor x) -> Tensor y", {.rounding = Rounding::kNone}, infer_copy, reference_copy));
}

}  // namespace reprise::ops
