#pragma once

#include <string>

#include "compile/pass.h"
#include "ops/registry.h"

namespace reprise::compile {

// Operators NAME whose result may be written over their first argument become NAME_ (ops/in_place.h). `device`: only
// where it has a kernel for NAME_; "": not asked.

/// For intermediates: the first argument must be memory of the graph's own that nothing uses afterwards, under any
/// name, and that no other argument shares; and the result must have its metadata.
PassResult in_place(graph::Graph& graph, const ops::Registry& registry, const std::string& device);

/// For inputs and parameters that the method overwrites by `copy_(P, NAME(P, ...))`: the copy goes. Between the two
/// nothing else may touch P. Of a chain of such operators the last becomes in place, the others write intermediates.
PassResult input_in_place(graph::Graph& graph, const ops::Registry& registry, const std::string& device);

/// The same through views: `copy_(P, reshape(NAME(reshape(P), ...)))`, as a cache is written row by row.
PassResult recover_view_in_place(graph::Graph& graph, const ops::Registry& registry, const std::string& device);

}  // namespace reprise::compile
