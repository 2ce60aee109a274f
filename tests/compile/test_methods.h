#pragma once

#include "compile/tracer.h"
#include "ops/copies.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/views.h"

namespace reprise::compile {

/// A float32 tensor that stands for a weight.
inline Tensor weight(const Shape& shape) {
  return Tensor(TensorMeta(DType::kF32, shape), std::make_shared<Storage>(nullptr, 0));
}

/// A tracer with the symbols of a step and one input x [tokens, 4].
struct TracedStep {
  explicit TracedStep(const ops::Registry& registry) : tracer(registry, "method"), context(tracer) {
    tokens = Dim::symbolic(tracer.symbol("tokens", 1, 8));
    sequences = Dim::symbolic(tracer.symbol("sequences", 1, 8));
    x = tracer.input("x", TensorMeta(DType::kF32, {tokens, 4}));
  }
  Tracer tracer;
  ops::ForwardContext context;
  Dim tokens, sequences;
  Tensor x;
};

}  // namespace reprise::compile
