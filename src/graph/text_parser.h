#pragma once

#include <string_view>

#include "graph/graph.h"
#include "ops/registry.h"

namespace reprise::graph {

/// Reads what to_text() of text_writer.h writes; blank lines and comments may stand between statements, attributes with
/// a default may be left out. Parameters are not bound to memory. The graph is verified, its metadata are those that
/// the shape functions give, and must be the written ones. Throws kCorruptData with "graph text: LINE:COLUMN: ...";
/// texts above 64 MiB are refused.
Graph parse(std::string_view text, const ops::Registry& registry);

}  // namespace reprise::graph
