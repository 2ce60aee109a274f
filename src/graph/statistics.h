#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "graph/graph.h"

namespace reprise::graph {

/// How large a graph is and what it is made of.
struct Statistics {
  size_t nodes = 0;
  size_t views = 0;     ///< of the nodes: launch nothing
  size_t mutating = 0;  ///< of the nodes: write to an argument
  size_t inputs = 0;
  size_t parameters = 0;
  size_t lists = 0;
  std::map<std::string, size_t> operators;  ///< nodes by operator

  /// A line with the totals, then the operators, the most frequent first.
  std::string to_string() const;
};

Statistics statistics(const Graph& graph);

}  // namespace reprise::graph
