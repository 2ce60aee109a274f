#pragma once

#include "compile/pass.h"

namespace reprise::compile {

/// Removes nodes whose results nobody uses and that change nothing, and parameters that no node takes.
PassResult eliminate_dead_code(graph::Graph& graph);

}  // namespace reprise::compile
