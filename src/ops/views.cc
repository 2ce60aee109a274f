#include "ops/views.h"

#include <utility>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"

namespace reprise::ops {
namespace {

/// Number of elements of a shape in which only the first axis may be symbolic.
Dim element_count(const Shape& shape) {
  Dim count(1);
  if (shape.rank() > 0) count = shape[0];
  for (size_t axis = 1; axis < shape.rank(); ++axis) count = count * shape.size(axis);
  return count;
}

void infer_reshape(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  const Shape& shape = call.shape_attribute(0);
  require_contiguous(call, 0);
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    const Dim& dim = shape[axis];
    if ((axis > 0 && !dim.is_constant()) || (dim.is_constant() && dim.value() < 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "reshape: attribute 'shape' is {}: sizes are not negative, and only the first may be symbolic",
                  shape.to_string());
    }
  }
  if (element_count(x.shape()) != element_count(shape)) {
    fail_argument(call, 0,
                  fmt::format("of shape {} has not as many elements as {}", x.shape().to_string(), shape.to_string()));
  }
  outputs[0] = TensorMeta(x.dtype(), shape);
}

void infer_slice(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  require_plain(call, 0);
  const int64_t axis = call.int_attribute(0);
  const int64_t begin = call.int_attribute(1);
  const int64_t end = call.int_attribute(2);
  if (axis < 0 || axis >= static_cast<int64_t>(x.rank())) {
    throw Error(ErrorCode::kInvalidArgument, "slice: attribute 'axis' is {}, expected less than {}", axis, x.rank());
  }
  const Dim dim = x.shape()[static_cast<size_t>(axis)];
  if (!dim.is_constant()) {
    fail_argument(call, 0, fmt::format("of shape {} cannot be cut along its symbolic axis", x.shape().to_string()));
  }
  if (begin < 0 || begin > end || end > dim.value()) {
    throw Error(ErrorCode::kInvalidArgument, "slice: [{}, {}) is not within the {} elements of axis {} of {}", begin,
                end, dim.value(), axis, x.shape().to_string());
  }
  outputs[0] = x.meta();
  outputs[0].shape[static_cast<size_t>(axis)] = Dim(end - begin);
}

size_t offset_slice(const OpCall& call) {
  const Tensor& x = call.inputs[0];
  const int64_t elements = call.int_attribute(1) * x.stride(static_cast<size_t>(call.int_attribute(0)));
  return static_cast<size_t>(elements) * size_of(x.dtype());
}

void infer_transpose(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  require_plain(call, 0);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t axis = call.int_attribute(i);
    if (axis >= 0 && axis < static_cast<int64_t>(x.rank())) continue;
    throw Error(ErrorCode::kInvalidArgument, "transpose: attribute '{}' is {}, expected 0 to {}",
                call.op.schema().attributes[i].name, axis, static_cast<int64_t>(x.rank()) - 1);
  }
  const auto a = static_cast<size_t>(call.int_attribute(0));
  const auto b = static_cast<size_t>(call.int_attribute(1));
  if (a != b && (!x.shape()[a].is_constant() || !x.shape()[b].is_constant())) {
    fail_argument(call, 0, fmt::format("of shape {} cannot move its symbolic axis", x.shape().to_string()));
  }
  outputs[0] = x.meta();
  std::swap(outputs[0].shape[a], outputs[0].shape[b]);
  std::swap(outputs[0].strides[a], outputs[0].strides[b]);
}

}  // namespace

Tensor reshape(ForwardContext& context, const Tensor& x, const Shape& shape, std::source_location where) {
  return dispatch_call(context, "reshape", {x}, {}, {shape}, where);
}

Tensor slice(ForwardContext& context, const Tensor& x, int64_t axis, int64_t begin, int64_t end,
             std::source_location where) {
  return dispatch_call(context, "slice", {x}, {}, {axis, begin, end}, where);
}

Tensor transpose(ForwardContext& context, const Tensor& x, int64_t axis_a, int64_t axis_b, std::source_location where) {
  return dispatch_call(context, "transpose", {x}, {}, {axis_a, axis_b}, where);
}

void register_views(Registry& registry) {
  // Rows may be mixed by a view of the first axis, so none promises row by row.
  const Traits view{.view = true, .rowwise = false, .rounding = Rounding::kNone};
  registry.add(OpDef("reshape(Tensor x, *, shape shape) -> Tensor y", view, infer_reshape, nullptr));
  registry.add(
      OpDef("slice(Tensor x, *, int axis, int begin, int end) -> Tensor y", view, infer_slice, nullptr, offset_slice));
  registry.add(OpDef("transpose(Tensor x, *, int axis_a, int axis_b) -> Tensor y", view, infer_transpose, nullptr));
}

}  // namespace reprise::ops
