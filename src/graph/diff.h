#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace reprise::graph {

/// What changed between two texts, line by line: "- " before removed lines, "+ " before added ones, "  " before two
/// lines of context on each side, "  ..." where lines are left out. Empty when the texts are equal.
std::string diff_lines(std::string_view before, std::string_view after);
/// The same of two graphs' texts: what a pass changed. Names of values stay over a change, so only touched lines show.
std::string diff(const Graph& before, const Graph& after);

}  // namespace reprise::graph
