#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace reprise::graph {

/// Bytes [begin, end) of device memory.
struct MemoryRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

/// What a tensor of constant shape covers; nothing for tensors without memory. For formats other than plain memory the
/// size is that of their elements.
std::optional<MemoryRange> memory_range(const Tensor& tensor);
bool share_memory(const Tensor& a, const Tensor& b);

/// The value whose memory a value may share: views are followed to what they look at, and parameters that overlap in
/// memory to the first of them. Values with different roots never share memory.
ValueId alias_root(const Graph& graph, ValueId value);
/// Roots of the arguments that a node mutates.
std::vector<ValueId> written_roots(const Graph& graph, const Node& node);
bool writes(const Graph& graph, const Node& node, ValueId root);

/// Why two nodes cannot change places for what one of them does to a stream: it records or waits for an event there, or
/// sets a limit. "" if neither does.
std::string control_hazard(const Node& a, const Node& b);
/// Why a node cannot run in front of `next` without changing what either computes: an argument that is made later, a
/// user that would come first, or memory that one of the nodes in between writes and the other touches. "" if it can.
std::string move_hazard(const Graph& graph, NodeId node, NodeId next);
/// Why users of `old_value` would see other contents in `new_value`, given that both hold the same when `old_value` is
/// made: one of them is overwritten while it is still in use. "" if they would not.
std::string replace_hazard(const Graph& graph, ValueId old_value, ValueId new_value);

}  // namespace reprise::graph
