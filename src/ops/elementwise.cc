#include "ops/elementwise.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/in_place.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_unary(const OpCall& call, std::span<TensorMeta> outputs) {
  require_float(call, 0);
  require_dense_rows(call, 0);
  outputs[0] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_binary(const OpCall& call, std::span<TensorMeta> outputs) {
  infer_unary(call, outputs);
  require_same_dtype(call, 1, 0);
  require_shape(call, 1, call.inputs[0].shape());
  require_dense_rows(call, 1);
}

template <typename Function>
void for_each_pair(const OpCall& call, Function function) {
  const RowReader a(call.inputs[0]);
  const RowReader b(call.inputs[1]);
  RowWriter y(call.outputs[0]);
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (int64_t i = 0; i < a.columns(); ++i) y.set(row, i, function(a(row, i), b(row, i)));
  }
}

void reference_add(const OpCall& call) {
  for_each_pair(call, [](float a, float b) { return a + b; });
}

void reference_mul(const OpCall& call) {
  for_each_pair(call, [](float a, float b) { return a * b; });
}

void reference_divide(const OpCall& call) {
  for_each_pair(call, [](float a, float b) { return a / b; });
}

template <typename Function>
void for_each(const OpCall& call, Function function) {
  const RowReader x(call.inputs[0]);
  RowWriter y(call.outputs[0]);
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.columns(); ++i) y.set(row, i, function(x(row, i)));
  }
}

void reference_silu(const OpCall& call) {
  for_each(call, [](double x) { return static_cast<float>(x / (1.0 + std::exp(-x))); });
}

void reference_reciprocal(const OpCall& call) {
  for_each(call, [](float x) { return 1.0f / x; });
}

}  // namespace

Tensor add(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  return dispatch_call(context, "add", {a, b}, {}, {}, where);
}

Tensor mul(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  return dispatch_call(context, "mul", {a, b}, {}, {}, where);
}

Tensor silu(ForwardContext& context, const Tensor& x, std::source_location where) {
  return dispatch_call(context, "silu", {x}, {}, {}, where);
}

Tensor divide(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  return dispatch_call(context, "divide", {a, b}, {}, {}, where);
}

Tensor reciprocal(ForwardContext& context, const Tensor& x, std::source_location where) {
  return dispatch_call(context, "reciprocal", {x}, {}, {}, where);
}

void add_(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  dispatch_call_of<0>(context, "add_", {a, b}, {}, where);
}

void mul_(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  dispatch_call_of<0>(context, "mul_", {a, b}, {}, where);
}

void divide_(ForwardContext& context, const Tensor& a, const Tensor& b, std::source_location where) {
  dispatch_call_of<0>(context, "divide_", {a, b}, {}, where);
}

void silu_(ForwardContext& context, const Tensor& x, std::source_location where) {
  dispatch_call_of<0>(context, "silu_", {x}, {}, where);
}

void reciprocal_(ForwardContext& context, const Tensor& x, std::source_location where) {
  dispatch_call_of<0>(context, "reciprocal_", {x}, {}, where);
}

void register_elementwise(Registry& registry) {
  registry.add(OpDef("add(Tensor a, Tensor b) -> Tensor y", {.commutative = true}, infer_binary, reference_add));
  registry.add(OpDef("mul(Tensor a, Tensor b) -> Tensor y", {.commutative = true}, infer_binary, reference_mul));
  registry.add(OpDef("silu(Tensor x) -> Tensor y", {}, infer_unary, reference_silu));
  registry.add(OpDef("divide(Tensor a, Tensor b) -> Tensor y", {}, infer_binary, reference_divide));
  registry.add(OpDef("reciprocal(Tensor x) -> Tensor y", {}, infer_unary, reference_reciprocal));
  registry.add(OpDef("add_(Tensor! a, Tensor b) -> ()", {}, infer_in_place<infer_binary>, in_place<reference_add>));
  registry.add(OpDef("mul_(Tensor! a, Tensor b) -> ()", {}, infer_in_place<infer_binary>, in_place<reference_mul>));
  registry.add(
      OpDef("divide_(Tensor! a, Tensor b) -> ()", {}, infer_in_place<infer_binary>, in_place<reference_divide>));
  registry.add(OpDef("silu_(Tensor! x) -> ()", {}, infer_in_place<infer_unary>, in_place<reference_silu>));
  registry.add(OpDef("reciprocal_(Tensor! x) -> ()", {}, infer_in_place<infer_unary>, in_place<reference_reciprocal>));
}

}  // namespace reprise::ops
