#include "compile/passes/event_closure.h"

#include <algorithm>

#include "base/error.h"
#include "graph/infer.h"
#include "graph/stream_order.h"

namespace reprise::compile {
namespace {

using graph::NodeId;

/// No name that a method can give to an event.
constexpr const char* kFork = ":fork";

std::string join_name(const graph::Graph& graph, size_t stream) { return ":join:" + graph.streams()[stream - 1]; }

/// First and last node of each stream, by its number; kNoNode for one that is not used.
struct Ends {
  explicit Ends(const graph::Graph& graph)
      : first(graph.streams().size() + 1, graph::kNoNode), last(graph.streams().size() + 1, graph::kNoNode) {
    for (const NodeId id : graph.order()) {
      const size_t stream = static_cast<size_t>(graph.node(id).stream);
      if (first[stream] == graph::kNoNode) first[stream] = id;
      last[stream] = id;
    }
  }
  std::vector<NodeId> first, last;
};

bool is_event(const graph::Node& node, std::string_view op, std::string_view event) {
  return node.op->name() == op && graph::event_name(node) == event;
}

bool is_forked(const graph::Graph& graph, const Ends& ends, size_t stream) {
  return is_event(graph.node(ends.first[stream]), graph::kWaitEvent, kFork);
}

bool is_joined(const graph::Graph& graph, const Ends& ends, size_t stream) {
  const std::string name = join_name(graph, stream);
  if (!is_event(graph.node(ends.last[stream]), graph::kRecordEvent, name)) return false;
  return std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId id) {
    return graph.node(id).stream == 0 && is_event(graph.node(id), graph::kWaitEvent, name);
  });
}

graph::NodeArguments event_arguments(const std::string& name, size_t stream) {
  graph::NodeArguments arguments;
  arguments.attributes = std::vector<ops::Attribute>{name};
  arguments.stream = static_cast<int32_t>(stream);
  return arguments;
}

}  // namespace

PassResult event_closure(graph::Graph& graph, const ops::Registry& registry) {
  PassResult result;
  if (graph.streams().empty()) return result;
  const Ends ends(graph);
  std::vector<size_t> forks, joins;
  for (size_t stream = 1; stream < ends.first.size(); ++stream) {
    if (ends.first[stream] == graph::kNoNode) continue;
    const bool forked = is_forked(graph, ends, stream);
    const bool joined = is_joined(graph, ends, stream);
    if (!forked) forks.push_back(stream);
    if (!joined) joins.push_back(stream);
    if (!forked || !joined) ++result.matches;
  }
  const ops::OpDef* record = result.matches == 0 ? nullptr : &registry.get(graph::kRecordEvent);
  const ops::OpDef* wait = result.matches == 0 ? nullptr : &registry.get(graph::kWaitEvent);
  if (!forks.empty()) {
    const NodeId start = graph.order().front();
    graph.insert_before(start, *record, event_arguments(kFork, 0));
    for (const size_t stream : forks) graph.insert_before(start, *wait, event_arguments(kFork, stream));
  }
  for (const size_t stream : joins) graph.add_node(*record, event_arguments(join_name(graph, stream), stream));
  for (const size_t stream : joins) graph.add_node(*wait, event_arguments(join_name(graph, stream), 0));
  return result;
}

std::string lowering_fault(const graph::Graph& graph) {
  const Ends ends(graph);
  for (size_t stream = 1; stream < ends.first.size(); ++stream) {
    if (ends.first[stream] == graph::kNoNode) continue;
    const bool forked = is_forked(graph, ends, stream);
    if (forked && is_joined(graph, ends, stream)) continue;
    return fmt::format("stream '{}' is not {}", graph.streams()[stream - 1],
                       forked ? "joined at the end" : "forked at the start");
  }
  for (const NodeId id : graph.order()) {
    if (graph.node(id).core_limit == device::CoreLimit{}) continue;
    return fmt::format("{} has a core limit that nothing sets", graph::describe(graph.node(id)));
  }
  return "";
}

}  // namespace reprise::compile
