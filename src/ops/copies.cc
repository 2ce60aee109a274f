#include "ops/copies.h"

#include <array>
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
  const DType dtype = float_dtype_attribute(call, 0);
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

/// Element by element, whatever they stand for, from one tensor to another of the same shape.
void copy_elements(const Tensor& from, const Tensor& to) {
  const RowReader x(from);
  const RowReader y(to);
  const size_t bytes = size_of(from.dtype());
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i) {
      std::memcpy(to.data_as<std::byte>() + static_cast<size_t>(y.element(row, i)) * bytes,
                  from.data_as<std::byte>() + static_cast<size_t>(x.element(row, i)) * bytes, bytes);
    }
  }
}

void reference_copy(const OpCall& call) { copy_elements(call.inputs[0], call.outputs[0]); }

void infer_copy_over(const OpCall& call, std::span<TensorMeta> /*outputs*/) {
  require_plain(call, 0);
  require_plain(call, 1);
  require_same_dtype(call, 1, 0);
  require_shape(call, 1, call.inputs[0].shape());
}

void reference_copy_over(const OpCall& call) { copy_elements(call.inputs[1], call.inputs[0]); }

void infer_cat(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& first = call.inputs[0];
  const int64_t axis = call.int_attribute(0);
  if (axis < 0 || axis >= static_cast<int64_t>(first.rank())) {
    throw Error(ErrorCode::kInvalidArgument, "cat: attribute 'axis' is {}, expected 0 to {}", axis,
                static_cast<int64_t>(first.rank()) - 1);
  }
  Shape shape = first.shape();
  for (size_t i = 0; i < call.inputs.size() && call.inputs[i].defined(); ++i) {
    require_plain(call, i);
    if (i == 0) continue;
    require_same_dtype(call, i, 0);
    require_rank(call, i, first.rank());
    Shape expected = first.shape();
    const Dim size = call.inputs[i].shape()[static_cast<size_t>(axis)];
    expected[static_cast<size_t>(axis)] = size;
    require_shape(call, i, expected);
    shape[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)] + size;
  }
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.inputs[i].defined() && !call.inputs[i - 1].defined()) {
      fail_argument(call, i - 1, "is absent, but a later one is given");
    }
  }
  outputs[0] = TensorMeta(first.dtype(), shape);
}

void reference_cat(const OpCall& call) {
  const auto axis = static_cast<size_t>(call.int_attribute(0));
  const Tensor& y = call.outputs[0];
  int64_t begin = 0;
  for (size_t i = 0; i < call.inputs.size() && call.inputs[i].defined(); ++i) {
    TensorMeta part = y.meta();
    part.shape = call.inputs[i].shape();
    copy_elements(call.inputs[i], y.with_meta(part, static_cast<size_t>(begin * y.stride(axis)) * size_of(y.dtype())));
    begin += part.shape.size(axis);
  }
}

}  // namespace

Tensor cast(ForwardContext& context, const Tensor& x, DType dtype, std::source_location where) {
  return dispatch_call(context, "cast", {x}, {}, {dtype}, where);
}

Tensor copy(ForwardContext& context, const Tensor& x, std::source_location where) {
  return dispatch_call(context, "copy", {x}, {}, {}, where);
}

void copy_(ForwardContext& context, const Tensor& to, const Tensor& from, std::source_location where) {
  dispatch_call_of<0>(context, "copy_", {to, from}, {}, where);
}

Tensor cat(ForwardContext& context, std::span<const Tensor> tensors, int64_t axis, std::source_location where) {
  if (tensors.empty()) throw Error(ErrorCode::kInvalidArgument, "cat: there are no tensors");
  std::array<Tensor, kMaxCatTensors> inputs;
  // What does not fit comes first, as one tensor, so that no operator takes more than it can.
  const size_t last = tensors.size() <= kMaxCatTensors ? tensors.size() : kMaxCatTensors - 1;
  size_t count = 0;
  if (last < tensors.size()) inputs[count++] = cat(context, tensors.first(tensors.size() - last), axis, where);
  for (const Tensor& tensor : tensors.last(last)) inputs[count++] = tensor;
  const Attribute attributes[] = {axis, false};
  Tensor output;
  context.dispatcher.dispatch("cat", inputs, {}, attributes, {&output, 1}, where);
  return output;
}

void register_copies(Registry& registry) {
  registry.add(OpDef("cast(Tensor x, *, dtype dtype) -> Tensor y", {}, infer_cast, reference_cast));
  registry.add(OpDef("copy(Tensor x) -> Tensor y", {.rounding = Rounding::kNone}, infer_copy, reference_copy));
  registry.add(OpDef("copy_(Tensor! to, Tensor from) -> ()", {.rounding = Rounding::kNone}, infer_copy_over,
                     reference_copy_over));
  registry.add(
      OpDef("cat(Tensor a, Tensor? b, Tensor? c, Tensor? d, Tensor? e, Tensor? f, Tensor? g, Tensor? h, *, int axis, "
            "bool placed = false) -> Tensor y",
            {.rowwise = false, .rounding = Rounding::kNone}, infer_cat, reference_cat));
}

}  // namespace reprise::ops
