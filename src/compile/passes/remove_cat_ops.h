#pragma once

#include "compile/pass.h"

namespace reprise::compile {

/// Marks each cat along axis 0 whose parts can be made where they lie in its result (placement.h): nothing is copied.
PassResult remove_cat_ops(graph::Graph& graph);

}  // namespace reprise::compile
