#pragma once

#include "ops/registry.h"

namespace reprise::graph {

/// Small operators that show every part of a schema, in a catalogue of their own:
///   pair_add(Tensor a, Tensor b, Tensor? bias) -> Tensor y            same shapes
///   pair_split(Tensor x) -> Tensor left, Tensor right                 the last axis in halves
///   flatten(Tensor x) -> Tensor y                                     a view: all axes but the first become one
///   copy_into(Tensor! target, Tensor source) -> ()
///   scale_in_place(Tensor! x, *, float factor = 1.5) -> ()
///   tagged(Tensor x, int[]^ lengths, *, int count = 1, bool flag = false, dtype dtype, shape shape, str text = none,
///          float factor = 0.5) -> Tensor y                            of that dtype
ops::Registry make_test_operators();

}  // namespace reprise::graph
