#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/stream.h"
#include "ops/op_def.h"

namespace reprise::graph {

/// Whether a text can be the name of a graph, a symbol, a value or a stream: letters, digits, '_' and '.'.
bool is_name(std::string_view text);

/// Names a value of one graph. Ids stay valid while other values and nodes come and go; they are never reused.
using ValueId = int32_t;
/// Names a node of one graph, likewise. It says nothing about the order of the nodes.
using NodeId = int32_t;
/// An optional tensor argument that is not given.
inline constexpr ValueId kAbsent = -1;
inline constexpr NodeId kNoNode = -1;

/// One symbol of a graph: every dimension with it takes the same value from min to max (both included) in a step.
struct SymDim {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
};

enum class ValueKind : uint8_t {
  kErased,      ///< was the output of a node that is gone
  kInput,       ///< a tensor that each step gives
  kParameter,   ///< a tensor that outlives the step: a weight, a KV buffer
  kHostList,    ///< integers on the host that each step gives
  kNodeOutput,  ///< a tensor that a node makes
};

/// A value in single-assignment form. Only a node whose schema says `Tensor!` changes its contents later on.
struct Value {
  ValueKind kind = ValueKind::kErased;
  std::string name;           ///< in text; unique in the graph: letters, digits, '_' and '.'
  TensorMeta meta;            ///< not of host lists
  Dim length;                 ///< of host lists
  std::string label;          ///< of parameters: the weight's own name, such as "model.norm.weight"; unique
  Tensor tensor;              ///< of parameters: what it is bound to; absent in a parsed graph
  NodeId producer = kNoNode;  ///< of node outputs
  uint32_t output_index = 0;  ///< of node outputs: which one of the producer's
  ValueId root = kAbsent;     ///< see alias_root()
  bool is_tensor() const { return kind != ValueKind::kHostList && kind != ValueKind::kErased; }
};

/// One operator call.
struct Node {
  const ops::OpDef* op = nullptr;
  std::vector<ValueId> inputs;             ///< in schema order; kAbsent for optional ones not given
  std::vector<ValueId> lists;              ///< in schema order
  std::vector<ops::Attribute> attributes;  ///< in schema order, all of them
  std::vector<ValueId> outputs;
  std::string source;            ///< "file.cc:42": the line of model code that made it; may be empty
  int32_t stream = 0;            ///< where it runs: 0 is the method's own stream, n is Graph::streams()[n - 1]
  device::CoreLimit core_limit;  ///< zeros: none of its own
};

/// The arguments of a node to be made.
struct NodeArguments {
  std::vector<ValueId> inputs;
  std::vector<ValueId> lists;
  std::vector<ops::Attribute> attributes;
  std::string source;
  int32_t stream = 0;
  device::CoreLimit core_limit = {};
};

/// The operators of one model method: values, and nodes in the order in which they run. Nodes that mutate an argument
/// act at their place in that order. With side streams it is the order in which they are launched; what runs behind
/// what follows from the streams and events: see stream_order.h. Copies share the parameters' memory and the operator
/// definitions, which the registry must keep alive. References to nodes and values hold until the next node or value is
/// added. Not safe for use by several threads while one changes it.
class Graph {
 public:
  /// `name`: letters, digits, '_' and '.'; throws kInvalidArgument for others.
  explicit Graph(std::string name);
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  /// An independent graph with the same ids.
  Graph clone() const { return *this; }

  const std::string& name() const { return name_; }

  /// The next symbol: the first is s0 (by convention "tokens"), the second s1 ("sequences").
  Symbol add_symbol(std::string_view name, int64_t min, int64_t max);
  /// The number of the side stream with this name, which is added if it is new. Throws kInvalidArgument for other
  /// characters than a name may hold.
  int32_t add_stream(std::string_view name);
  /// In the order of inputs(). Names that are taken get a suffix, other characters than a name may hold become '_'.
  ValueId add_input(std::string_view name, const TensorMeta& meta);
  /// In the order of lists().
  ValueId add_host_list(std::string_view name, Dim length);
  /// The parameter for a tensor: the one that is there already if it has the same address and metadata (or, for
  /// tensors without memory, the same label), else a new one, in the order of parameters(). Throws kInvalidArgument
  /// when the label belongs to another tensor.
  ValueId add_parameter(std::string_view label, const Tensor& tensor);
  /// A parameter that is not bound to memory.
  ValueId add_parameter(std::string_view label, const TensorMeta& meta, std::string_view name = "");
  /// The parameter with this tensor's address and metadata, if any.
  std::optional<ValueId> find_parameter(const Tensor& tensor) const;
  std::optional<ValueId> find_parameter(std::string_view label) const;
  /// Binds a parameter to memory; throws kInvalidArgument when the metadata differ.
  void bind_parameter(ValueId parameter, const Tensor& tensor);

  /// Appends a node. Checks the arguments against the schema and lets the shape function give the outputs' metadata;
  /// errors name the operator and the source line. `output_names` are wishes; without them the operator's name is used.
  NodeId add_node(const ops::OpDef& op, NodeArguments arguments, std::span<const std::string> output_names = {});
  /// The same in front of a node.
  NodeId insert_before(NodeId next, const ops::OpDef& op, NodeArguments arguments,
                       std::span<const std::string> output_names = {});
  /// Output `index` of a node.
  ValueId output_of(NodeId node, size_t index = 0) const;

  /// What the method returns. Throws kInvalidArgument for values that are no tensors of this graph.
  void set_outputs(std::vector<ValueId> outputs);

  /// Nodes that take a value (once each), in order. The graph's outputs are not among them: see is_output().
  std::vector<NodeId> users(ValueId value) const;
  bool is_output(ValueId value) const;
  /// Lets every user of `old_value`, and the graph's outputs, take `new_value`; the node that makes `new_value` keeps
  /// what it takes. Metadata downstream stay as they are:
  /// infer_again() where they may change. Throws kFailedPrecondition when memory effects forbid it (replace_hazard()).
  void replace_uses(ValueId old_value, ValueId new_value);
  /// Removes a node; throws kFailedPrecondition while one of its outputs is used.
  void erase_node(NodeId node);
  /// The same for several that may use each other; all or none are erased.
  void erase_nodes(std::span<const NodeId> nodes);
  /// Removes a parameter that no node takes and the graph does not return; throws kFailedPrecondition otherwise.
  void erase_parameter(ValueId parameter);
  /// Moves a node in front of another. Throws kFailedPrecondition when it would cross a node that it depends on, that
  /// depends on it, or that touches memory which one of the two writes (move_hazard()).
  void move_before(NodeId node, NodeId next);
  /// Gives the outputs of a node the metadata that its shape function says now.
  void infer_again(NodeId node);

  const std::vector<SymDim>& symbols() const { return symbols_; }
  /// Names of the side streams.
  const std::vector<std::string>& streams() const { return streams_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& parameters() const { return parameters_; }
  const std::vector<ValueId>& lists() const { return lists_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  /// The nodes in the order in which they run.
  const std::vector<NodeId>& order() const { return order_; }
  /// The place of a node in order(). Linear: number_nodes() where many are wanted.
  size_t position(NodeId node) const;

  /// Throws kInternal for an id that this graph does not have.
  const Node& node(NodeId id) const;
  const Value& value(ValueId id) const;
  /// For changes that the functions above do not offer; verify() tells what is broken by them.
  Node& mutable_node(NodeId id) { return const_cast<Node&>(node(id)); }
  Value& mutable_value(ValueId id) { return const_cast<Value&>(value(id)); }
  /// The value with this name in text.
  std::optional<ValueId> find_value(std::string_view name) const;
  /// Ids are below these, erased ones included.
  size_t value_limit() const { return values_.size(); }
  size_t node_limit() const { return nodes_.size(); }
  bool has_value(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < values_.size() && values_[id].kind != ValueKind::kErased;
  }
  bool has_node(NodeId id) const {
    return id >= 0 && static_cast<size_t>(id) < nodes_.size() && nodes_[id].op != nullptr;
  }

 private:
  Graph(const Graph&) = default;

  ValueId add_value(Value value, std::string_view wished_name);
  std::string unique_name(std::string_view wished_name);
  NodeId make_node(size_t position, const ops::OpDef& op, NodeArguments arguments,
                   std::span<const std::string> output_names);
  void update_roots();
  void drop_name(ValueId value);

  std::string name_;
  std::vector<SymDim> symbols_;
  std::vector<std::string> streams_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> parameters_;
  std::vector<ValueId> lists_;
  std::vector<ValueId> outputs_;
  std::map<std::string, ValueId, std::less<>> names_;
  std::map<std::string, ValueId, std::less<>> labels_;
  /// How often a wished name was taken, so that finding a free one does not search.
  std::map<std::string, int64_t, std::less<>> name_counts_;
};

/// The arguments that a node was made with.
NodeArguments arguments_of(const Node& node);
/// "the method's own stream", or "stream 'side'".
std::string stream_text(const Graph& graph, int32_t stream);
/// For each node id its place in order(); -1 for erased ones.
std::vector<int32_t> number_nodes(const Graph& graph);
/// For each value id the nodes that take it, in order, once each.
std::vector<std::vector<NodeId>> all_users(const Graph& graph);

}  // namespace reprise::graph
