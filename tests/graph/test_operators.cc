#include "graph/test_operators.h"

#include "ops/checks.h"

namespace reprise::graph {
namespace {

using ops::OpCall;
using ops::OpDef;
using ops::Traits;

void infer_pair_add(const OpCall& call, std::span<TensorMeta> outputs) {
  ops::require_shape(call, 1, call.inputs[0].shape());
  ops::require_dtype(call, 1, call.inputs[0].dtype());
  outputs[0] = TensorMeta(call.inputs[0].dtype(), call.inputs[0].shape());
}

void infer_pair_split(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  if (x.rank() < 2 || x.size(x.rank() - 1) % 2 != 0) ops::fail_argument(call, 0, "has no even last axis");
  Shape half = x.shape();
  half[half.rank() - 1] = Dim(x.size(x.rank() - 1) / 2);
  outputs[0] = outputs[1] = TensorMeta(x.dtype(), half);
}

void infer_flatten(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  if (x.rank() < 2 || !x.is_contiguous()) ops::fail_argument(call, 0, "cannot be flattened");
  int64_t columns = 1;
  for (size_t axis = 1; axis < x.rank(); ++axis) columns *= x.size(axis);
  outputs[0] = TensorMeta(x.dtype(), Shape{x.shape()[0], columns});
}

void infer_copy_into(const OpCall& call, std::span<TensorMeta>) { ops::require_dtype(call, 1, call.inputs[0].dtype()); }

void infer_nothing(const OpCall&, std::span<TensorMeta>) {}

void infer_tagged(const OpCall& call, std::span<TensorMeta> outputs) {
  outputs[0] = TensorMeta(call.dtype_attribute(2), call.inputs[0].shape());
}

}  // namespace

ops::Registry make_test_operators() {
  ops::Registry registry;
  registry.add(OpDef("pair_add(Tensor a, Tensor b, Tensor? bias) -> Tensor y", {}, infer_pair_add, nullptr));
  registry.add(OpDef("pair_split(Tensor x) -> Tensor left, Tensor right", {}, infer_pair_split, nullptr));
  Traits view;
  view.view = true;
  registry.add(OpDef("flatten(Tensor x) -> Tensor y", view, infer_flatten, nullptr));
  registry.add(OpDef("copy_into(Tensor! target, Tensor source) -> ()", {}, infer_copy_into, nullptr));
  registry.add(OpDef("scale_in_place(Tensor! x, *, float factor = 1.5) -> ()", {}, infer_nothing, nullptr));
  registry.add(
      OpDef("tagged(Tensor x, int[]^ lengths, *, int count = 1, bool flag = false, dtype dtype, shape shape, "
            "str text = none, float factor = 0.5) -> Tensor y",
            {}, infer_tagged, nullptr));
  return registry;
}

}  // namespace reprise::graph
