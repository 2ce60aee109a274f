#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace reprise::graph {

/// A graph as text, which parse() of text_parser.h reads back:
///
///   graph decode {
///     symbol s0 tokens [1, 32]
///     input %token_ids : int32[s0]
///     parameter %w0 "model.norm.weight" : float32[64]
///     list %kv_lengths : int[s1]
///     %x = embedding(%token_ids, %w0) {dtype = bfloat16} : bfloat16[s0, 64]  # qwen3.cc:42
///     store_kv(%k, %v, %slots, %k_cache, %v_cache, none, none)
///     return %x
///   }
///
/// One line for each value of the outside and each node; arguments in schema order, an absent one is `none`. Side
/// streams are declared (`stream side`) behind the lists; a node on one ends in ` on side`, one with a core limit in
/// ` limit(MATRIX, VECTOR)`.
std::string to_text(const Graph& graph);
/// One node's line, without indentation and source line.
std::string to_text(const Graph& graph, NodeId node);
/// An attribute's value; strings are escaped.
std::string to_text(const ops::Attribute& attribute);
/// "text" in quotes, with \" \\ \n \t and \xHH.
std::string quote(std::string_view text);

}  // namespace reprise::graph
