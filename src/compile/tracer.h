#pragma once

#include <map>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/dispatcher.h"
#include "ops/registry.h"
#include "ops/scope_stack.h"

namespace reprise::compile {

/// Turns one run of a method into a graph: operator calls become nodes, tensors that the method brings along become
/// parameters. The method runs on tensors without memory, whose first axis may be symbolic.
///
/// Throws kGraphBreak, naming the operator and the line of model code, for what a graph cannot hold: a random operator,
/// one that reads device data on the host, one without shape function, the value of a symbolic dimension.
class Tracer final : public ops::Dispatcher {
 public:
  /// The registry must outlive the graph, whose nodes point at its operators.
  Tracer(const ops::Registry& registry, std::string method);

  /// Declares what the method is given, before it runs.
  Symbol symbol(std::string_view name, int64_t min, int64_t max);
  Tensor input(std::string_view name, const TensorMeta& meta);
  ops::HostList host_list(std::string_view name, Dim length);
  /// How graphs call a tensor that the method reads, e.g. "model.norm.weight".
  void name_parameter(std::string_view label, const Tensor& tensor);

  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const ops::HostList> lists,
                std::span<const ops::Attribute> attributes, std::span<Tensor> outputs,
                std::source_location where) override;
  /// Operators become nodes of the open scopes' stream and core limit, events become nodes.
  void scope(const ops::ScopeChange& change, std::source_location where) override;

  /// The graph, with what the method returned as outputs. The tracer is empty afterwards. Throws kGraphBreak for scopes
  /// that were not closed in order, kInvalidArgument for streams that race (check_streams() of graph/stream_order.h).
  graph::Graph finish(std::span<const Tensor> outputs);

  /// For messages: the last operator call, "FILE:LINE: OP"; "" before the first.
  std::string last_node() const;

 private:
  void add_event(std::string_view op, std::string_view event, std::source_location where);
  graph::ValueId value_of(const Tensor& tensor, const ops::OpDef& op, const std::string& source);

  const ops::Registry& registry_;
  graph::Graph graph_;
  ops::ScopeStack scopes_;
  std::map<std::pair<const void*, size_t>, std::string> labels_;
  int64_t unnamed_ = 0;
};

}  // namespace reprise::compile
