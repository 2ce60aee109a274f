#pragma once

#include "compile/pass.h"

namespace reprise::compile {

/// Removes operators that give their input unchanged: reshape to the same shape, slice of everything, transpose of
/// an axis with itself, cat of one tensor, cast to the same dtype, copy of a contiguous tensor that nobody changes. An
/// output of the graph that was memory of its own stays so.
PassResult remove_noop_ops(graph::Graph& graph);

}  // namespace reprise::compile
