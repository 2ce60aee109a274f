#pragma once

#include <string>

#include "compile/pass.h"
#include "ops/registry.h"

namespace reprise::compile {

/// Makes one product of linear layers that have one input and whose weights lie one after the other in one storage (as
/// query, key and value, and gate and up of a model do): the merged weight is that storage, so nothing is copied and
/// nothing runs. The results are views of the merged product: cut by heads where they are reshaped to heads, else by
/// columns. Exact: each column of a product is a sum of its own.
PassResult merge_linears(graph::Graph& graph, const ops::Registry& registry, const std::string& device);

}  // namespace reprise::compile
