#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace reprise::compile {

/// What a pass did to a graph.
struct PassResult {
  int64_t matches = 0;                ///< rewrites made
  std::vector<std::string> refusals;  ///< candidates left alone, with the place and the reason
};

/// One rewrite of graphs: a file of passes/ and a line in a pipeline, or a function of the user's.
struct Pass {
  std::string name;
  std::function<PassResult(graph::Graph& graph)> run;
};

}  // namespace reprise::compile
