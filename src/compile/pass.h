#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace reprise::compile {

/// What a pass did to a graph.
struct PassResult {
  int64_t matches = 0;                ///< rewrites made
  std::vector<std::string> refusals;  ///< candidates left alone, with the place and the reason
};

/// One rewrite of graphs: a file of passes/ and a line in a pipeline.
struct Pass {
  const char* name;
  PassResult (*run)(graph::Graph& graph);
};

}  // namespace reprise::compile
