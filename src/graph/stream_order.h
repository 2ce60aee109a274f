#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace reprise::graph {

/// Names of the operators that act on a stream in place of computing something.
inline constexpr std::string_view kRecordEvent = "record_event";
inline constexpr std::string_view kWaitEvent = "wait_event";
inline constexpr std::string_view kSetCoreLimit = "set_core_limit";

/// The event that a node records or waits for; "" for other nodes.
std::string_view event_name(const Node& node);

/// Which nodes of a graph run behind which: those of one stream in their order, those behind a wait behind what was
/// recorded under its name last. A snapshot: nodes that were added later are not in it.
class StreamOrder {
 public:
  explicit StreamOrder(const Graph& graph);

  /// Whether the graph has one stream, so that order() says it all.
  bool is_trivial() const { return streams_ == 1; }
  /// Whether `first` is done before `second` begins. Not of a node and itself.
  bool before(NodeId first, NodeId second) const;

 private:
  size_t streams_;
  std::vector<int32_t> places_;   ///< by node id: in its stream, from 1
  std::vector<int32_t> lanes_;    ///< by node id: its stream
  std::vector<int32_t> reached_;  ///< by node id and stream: how many of the stream's nodes come before or are the node
};

/// What is wrong with the streams of a graph, one sentence each: a value that one stream makes, or memory that it
/// writes, and that another one touches with no event between; a wait for an event that is not recorded before it.
/// Views touch nothing. Without side streams only the latter is looked for. Inputs and parameters are there from the
/// start on every stream, results are taken when all streams are done.
std::vector<std::string> stream_faults(const Graph& graph);

/// Throws kInvalidArgument with the first of them and the remedy.
void check_streams(const Graph& graph);

/// Why memory cannot be written from `first` on and be what it was meant to be from `last` on: another node touches
/// `root` that runs neither before `first` nor behind `last`. "" if none does, or without side streams.
std::string cross_stream_hazard(const Graph& graph, NodeId first, NodeId last, ValueId root);
/// The part of replace_hazard() that is about streams: users of `old_value` would run before `new_value` is made, or
/// beside a node that writes it. "" without side streams.
std::string cross_stream_replace_hazard(const Graph& graph, ValueId old_value, ValueId new_value);

}  // namespace reprise::graph
