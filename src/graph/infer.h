#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace reprise::graph {

/// Bounds that keep arithmetic on shapes far from overflow, in shape functions too.
inline constexpr int64_t kMaxSymbolValue = (int64_t{1} << 31) - 1;
inline constexpr int32_t kMaxDimScale = 1 << 20;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
/// Of every axis but the first, so that the product of any two of them is a number too.
inline constexpr int64_t kMaxInnerSize = (int64_t{1} << 31) - 1;
inline constexpr int32_t kMaxSymbols = 64;

/// What is wrong with a dimension in a graph with these symbols, as the end of a sentence; "" when nothing is.
std::string dim_fault(const Dim& dim, std::span<const SymDim> symbols);
/// The same for a tensor's metadata: symbols, sizes, strides, format name.
std::string meta_fault(const TensorMeta& meta, std::span<const SymDim> symbols);
/// The metadata with unused strides cleared, so that equal ones compare equal. Throws kInvalidArgument with the fault.
TensorMeta checked_meta(TensorMeta meta, std::span<const SymDim> symbols, std::string_view name);

/// "norm.cc:42: rms_norm", or the operator alone: how messages name a node.
std::string describe(const Node& node);

/// What is wrong with a node's arguments by its operator's schema: number, kinds, absence, attribute types. "" if
/// nothing is.
std::string argument_fault(const Graph& graph, const Node& node);
/// Checks the arguments and asks the shape function. Throws kInvalidArgument, or what the shape function throws, with
/// the operator and the source line.
std::vector<TensorMeta> infer_outputs(const Graph& graph, const Node& node);

}  // namespace reprise::graph
