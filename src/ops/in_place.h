#pragma once

#include <string>
#include <vector>

#include "ops/op_def.h"
#include "ops/registry.h"

namespace reprise::ops {

// The in-place variant of an operator NAME with one result is the operator NAME_: the same arguments and attributes in
// the same order, the first tensor mutated, no result. It leaves in its first argument, bit by bit, what NAME returns;
// the first argument has the result's shape and dtype. No other argument may share memory with the first.

/// The in-place variant of an operator, or null where the registry has none that keeps the rule.
const OpDef* find_in_place_variant(const Registry& registry, const OpDef& op);

/// The names of operators, with those of their in-place variants: what a pass may have made of them.
std::vector<std::string> with_in_place_variants(const Registry& registry, std::vector<std::string> names);

/// What is made of the parts of NAME for NAME_: a reference or a kernel's run function that writes over its input.
template <void (*kFunction)(const OpCall&)>
void in_place(const OpCall& call) {
  Tensor result = call.inputs[0];
  OpCall inner = call;
  inner.outputs = {&result, 1};
  kFunction(inner);
}

/// Throws kInvalidArgument unless the first argument has the metadata of NAME's result, strides aside.
void require_result_fits(const OpCall& call, const TensorMeta& result);

template <void (*kInfer)(const OpCall&, std::span<TensorMeta>)>
void infer_in_place(const OpCall& call, std::span<TensorMeta> /*outputs*/) {
  TensorMeta result;
  kInfer(call, {&result, 1});
  require_result_fits(call, result);
}

}  // namespace reprise::ops
