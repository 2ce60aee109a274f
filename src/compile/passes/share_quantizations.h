#pragma once

#include "compile/pass.h"

namespace reprise::compile {

/// A value that is quantised several times in the same way (as the inputs of query, key and value are) is quantised
/// once. Products of one quantised input can be merged afterwards. Refused, with the reason, where other scales are
/// used, or where memory is overwritten in between.
PassResult share_quantizations(graph::Graph& graph);

}  // namespace reprise::compile
