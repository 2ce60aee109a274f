#pragma once

#include "compile/pattern_context.h"

namespace reprise::compile {

/// Examples for patterns: float32 rows of a step, and constants of 8 columns or as given.
inline TensorMeta example_rows(int64_t columns = 8) {
  return TensorMeta(DType::kF32, {Dim::symbolic(Symbol::kTokens), columns});
}
inline TensorMeta example_positions() { return TensorMeta(DType::kI32, {Dim::symbolic(Symbol::kTokens)}); }
inline TensorMeta example_vector(int64_t columns = 8) { return TensorMeta(DType::kF32, {columns}); }

/// Stands for any epsilon: no other attribute of the patterns is like it.
inline PatternScalar any_epsilon() { return {"epsilon", 2.5e-6}; }

}  // namespace reprise::compile
