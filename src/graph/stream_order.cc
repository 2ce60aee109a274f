#include "graph/stream_order.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"

namespace reprise::graph {
namespace {

/// More are not worth looking for.
constexpr size_t kMaxFaults = 100;

struct Fault {
  std::string text;
  std::string remedy;
};

/// How a node touches the memory of a root.
struct Touch {
  NodeId node = kNoNode;
  ValueId value = kAbsent;
  bool writes = false;
  bool makes = false;
};

void add_touches(const Graph& graph, NodeId id, std::vector<std::vector<Touch>>& touches) {
  const Node& node = graph.node(id);
  if (node.op->traits().view) return;
  const auto& specs = node.op->schema().tensors;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent) continue;
    const size_t root = static_cast<size_t>(graph.value(node.inputs[i]).root);
    touches[root].push_back({id, node.inputs[i], specs[i].mutated, false});
  }
  for (const ValueId output : node.outputs) touches[static_cast<size_t>(output)].push_back({id, output, true, true});
}

Fault race(const Graph& graph, const Touch& first, const Touch& second) {
  const auto place = [&](const Touch& touch) {
    const Node& node = graph.node(touch.node);
    return fmt::format("{} on {}", describe(node), stream_text(graph, node.stream));
  };
  return {fmt::format("{} {} %{}, and {} {} it with no event between them", place(first),
                      first.makes ? "makes" : (first.writes ? "writes" : "reads"), graph.value(first.value).name,
                      place(second), second.writes ? "writes" : "reads"),
          "record an event behind the first (ops::record_event) and wait for it in front of the second "
          "(ops::wait_event)"};
}

std::vector<Fault> unrecorded_events(const Graph& graph) {
  std::vector<Fault> faults;
  std::set<std::string_view> recorded;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->name() == kRecordEvent) recorded.insert(event_name(node));
    if (node.op->name() != kWaitEvent || recorded.contains(event_name(node))) continue;
    faults.push_back(
        {fmt::format("{} waits for the event '{}', which is not recorded before it", describe(node), event_name(node)),
         "record it first, on the stream that is waited for (ops::record_event)"});
  }
  return faults;
}

std::vector<Fault> find_faults(const Graph& graph) {
  std::vector<Fault> faults = unrecorded_events(graph);
  const StreamOrder order(graph);
  if (order.is_trivial() || !faults.empty()) return faults;
  std::vector<std::vector<Touch>> touches(graph.value_limit());
  for (const NodeId id : graph.order()) add_touches(graph, id, touches);
  for (const std::vector<Touch>& of_root : touches) {
    for (size_t j = 1; j < of_root.size(); ++j) {
      for (size_t i = 0; i < j && faults.size() < kMaxFaults; ++i) {
        const Touch& first = of_root[i];
        const Touch& second = of_root[j];
        if (!(first.writes || second.writes) || first.node == second.node) continue;
        if (!order.before(first.node, second.node)) faults.push_back(race(graph, first, second));
      }
    }
  }
  return faults;
}

/// Whether a node takes or makes memory of the root; views do not touch it.
bool touches_root(const Graph& graph, const Node& node, ValueId root) {
  if (node.op->traits().view) return false;
  const auto has_root = [&](ValueId value) { return value != kAbsent && graph.value(value).root == root; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), has_root) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), has_root);
}

/// Nodes that read or write a value or a view of it, without those that make views.
std::vector<NodeId> users_through_views(const Graph& graph, ValueId value) {
  std::vector<bool> members(graph.value_limit(), false);
  members[static_cast<size_t>(value)] = true;
  std::vector<NodeId> users;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool uses = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input != kAbsent && members[static_cast<size_t>(input)];
    });
    if (!uses) continue;
    if (!node.op->traits().view) {
      users.push_back(id);
    } else if (node.inputs[0] != kAbsent && members[static_cast<size_t>(node.inputs[0])]) {
      members[static_cast<size_t>(node.outputs[0])] = true;
    }
  }
  return users;
}

}  // namespace

std::string_view event_name(const Node& node) {
  if (node.op->name() != kRecordEvent && node.op->name() != kWaitEvent) return "";
  return std::get<std::string>(node.attributes[0]);
}

StreamOrder::StreamOrder(const Graph& graph) : streams_(graph.streams().size() + 1) {
  if (is_trivial()) {
    places_ = number_nodes(graph);
    return;
  }
  places_.assign(graph.node_limit(), 0);
  lanes_.assign(graph.node_limit(), 0);
  reached_.assign(graph.node_limit() * streams_, 0);
  std::vector<std::vector<int32_t>> now(streams_, std::vector<int32_t>(streams_, 0));
  std::map<std::string_view, std::vector<int32_t>> events;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const size_t lane = static_cast<size_t>(node.stream);
    std::vector<int32_t>& reached = now[lane];
    if (node.op->name() == kWaitEvent) {
      const auto event = events.find(event_name(node));
      for (size_t i = 0; event != events.end() && i < streams_; ++i)
        reached[i] = std::max(reached[i], event->second[i]);
    }
    places_[static_cast<size_t>(id)] = ++reached[lane];
    lanes_[static_cast<size_t>(id)] = node.stream;
    std::copy(reached.begin(), reached.end(), reached_.begin() + static_cast<std::ptrdiff_t>(id * streams_));
    if (node.op->name() == kRecordEvent) events[event_name(node)] = reached;
  }
}

bool StreamOrder::before(NodeId first, NodeId second) const {
  const int32_t place = places_[static_cast<size_t>(first)];
  if (is_trivial()) return place < places_[static_cast<size_t>(second)];
  const size_t lane = static_cast<size_t>(lanes_[static_cast<size_t>(first)]);
  return first != second && reached_[static_cast<size_t>(second) * streams_ + lane] >= place;
}

std::vector<std::string> stream_faults(const Graph& graph) {
  std::vector<std::string> texts;
  for (Fault& fault : find_faults(graph)) texts.push_back(std::move(fault.text));
  return texts;
}

void check_streams(const Graph& graph) {
  std::vector<Fault> faults = find_faults(graph);
  if (faults.empty()) return;
  throw Error(ErrorCode::kInvalidArgument, "graph {}: {}", graph.name(), faults[0].text)
      .remedy(std::move(faults[0].remedy));
}

std::string cross_stream_hazard(const Graph& graph, NodeId first, NodeId last, ValueId root) {
  if (graph.streams().empty()) return "";
  const StreamOrder order(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (id == first || id == last || !touches_root(graph, node, root)) continue;
    if (order.before(id, first) || order.before(last, id)) continue;
    return fmt::format("{} on {} touches %{} with no event between them", describe(node),
                       stream_text(graph, node.stream), graph.value(root).name);
  }
  return "";
}

std::string cross_stream_replace_hazard(const Graph& graph, ValueId old_value, ValueId new_value) {
  if (graph.streams().empty()) return "";
  const Value& from = graph.value(old_value);
  const Value& to = graph.value(new_value);
  const StreamOrder order(graph);
  std::vector<NodeId> users = users_through_views(graph, old_value);
  std::erase(users, to.producer);
  const NodeId maker = graph.value(to.root).producer;
  for (const NodeId user : users) {
    // In the order of one stream it is the caller who sees to it.
    if (maker == kNoNode || graph.node(maker).stream == graph.node(user).stream) continue;
    if (order.before(maker, user)) continue;
    return fmt::format("{} on {} does not wait for %{}", describe(graph.node(user)),
                       stream_text(graph, graph.node(user).stream), to.name);
  }
  for (const NodeId id : graph.order()) {
    if (id == maker || !writes(graph, graph.node(id), to.root)) continue;
    if (from.producer == id || (from.producer != kNoNode && order.before(id, from.producer))) continue;
    const bool behind_all = !graph.is_output(old_value) && std::all_of(users.begin(), users.end(), [&](NodeId user) {
      return user == id || order.before(user, id);
    });
    if (behind_all) continue;
    return fmt::format("{} on {} overwrites %{} with no event between them", describe(graph.node(id)),
                       stream_text(graph, graph.node(id).stream), to.name);
  }
  return "";
}

}  // namespace reprise::graph
